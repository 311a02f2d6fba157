"""The mutants, a module for each theme. See `statestores_mutants.registry.mutant`."""
