"""The commands, a module for each; `statestores.cli.application` puts them together."""
