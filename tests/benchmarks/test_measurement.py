"""Rounds: who takes turns with whom, what is counted, and what is refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from statestores_benchmarks.cases import Case, Group, Outcome, Prepare, Scale, Target, Timed
from statestores_benchmarks.measurement import DisagreementError, measure
from statestores_benchmarks.turns import turns

pytestmark = pytest.mark.usefixtures("little_garbage")

ROUNDS = Scale("test", rounds=2, factor=1, most_rounds=2, budget_s=0)


def noting(name: str, order: list[str], outcome: Outcome | None = None) -> Prepare:
    """Make a case that notes when it ran."""

    @contextmanager
    def prepare(path: Path) -> Iterator[Timed]:
        assert list(path.iterdir()) == []

        def timed() -> Outcome | None:
            order.append(name)
            (path / "left behind").touch()
            return outcome

        yield timed

    return prepare


def nothing() -> None:
    """Take no note of progress."""


class TestRounds:
    def test_cases_take_turns_and_the_first_round_warms_up(self) -> None:
        """Three rounds of each, of which two are counted."""
        order: list[str] = []
        cases = [Case(name, noting(name, order)) for name in "AB"]

        measured = measure(Group(name="g", title="t", operations=10, cases=cases), ROUNDS, nothing)

        assert [set(order[first : first + 2]) for first in (0, 2, 4)] == [{"A", "B"}] * 3
        assert [found.name for found in measured] == ["A", "B"]
        assert [len(found.cpu) for found in measured] == [2, 2]
        assert [len(found.process) for found in measured] == [2, 2]

    def test_no_case_goes_before_another_one_in_all_rounds(self) -> None:
        """What a case leaves behind hits all of them.

        In each round the floor came right after two cases of ours, whose work is nearly its own,
        and ours came after another process. Whether that is worth a percent or ten could not be
        told, since there was nothing to compare it with. Now the counted rounds of a pair are each
        other's mirror image.
        """
        order: list[str] = []
        cases = [Case(name, noting(name, order)) for name in "ABCD"]
        scale = Scale("test", rounds=4, factor=1, most_rounds=4, budget_s=0)

        measure(Group(name="g", title="t", operations=1, cases=cases), scale, nothing)

        rounds = ["".join(order[first : first + 4]) for first in range(4, 20, 4)]
        assert rounds[1] == rounds[0][::-1]
        assert rounds[3] == rounds[2][::-1]

    def test_each_figure_stays_with_its_case(self) -> None:
        """In whichever order they were taken."""
        cases = [
            Case(name, noting(name, [], Outcome(quantities={"number": number})))
            for number, name in enumerate("ABCD")
        ]
        scale = Scale("test", rounds=6, factor=1, most_rounds=6, budget_s=0)

        measured = measure(Group(name="g", title="t", operations=1, cases=cases), scale, nothing)

        assert [found.quantities["number"] for found in measured] == [
            [number] * 6 for number in range(4)
        ]

    def test_work_that_takes_long_can_do_without_warming_up(self) -> None:
        """Then every round is counted, and a group may have fewer of them."""
        order: list[str] = []
        group = Group(
            name="g",
            title="t",
            operations=10,
            cases=[Case("A", noting("A", order))],
            warm_up=False,
            rounds=1,
        )

        measured = measure(group, ROUNDS, nothing)

        assert order == ["A"]
        assert len(measured[0].wall) == 1

    def test_there_are_more_rounds_within_the_budget(self) -> None:
        """Short work is measured more often, up to the most rounds of the scale."""
        order: list[str] = []
        scale = Scale("test", rounds=1, factor=1, most_rounds=4, budget_s=3_600)

        measured = measure(
            Group(name="g", title="t", operations=1, cases=[Case("A", noting("A", order))]),
            scale,
            nothing,
        )

        assert len(measured[0].wall) == 4

    def test_a_group_may_ask_for_more_rounds_than_the_scale_begins_with(self) -> None:
        """Whatever they take; but no more than the scale has, which a tiny one keeps low."""
        scale = Scale("test", rounds=2, factor=1, most_rounds=4, budget_s=0)

        rounds = [
            len(
                measure(
                    Group(
                        name="g",
                        title="t",
                        operations=1,
                        cases=[Case("A", noting("A", []))],
                        least_rounds=least,
                    ),
                    scale,
                    nothing,
                )[0].wall
            )
            for least in (1, 3, 9)
        ]

        assert rounds == [2, 3, 4]

    def test_what_rounds_share_is_entered_once(self) -> None:
        """And left after the last round."""
        order: list[str] = []

        @contextmanager
        def around(path: Path) -> Iterator[None]:
            order.append("enter")
            yield
            order.append("leave")

        group = Group(
            name="g",
            title="t",
            operations=1,
            cases=[Case("A", noting("A", order))],
            around=around,
        )
        measure(group, ROUNDS, nothing)

        assert order == ["enter", "A", "A", "A", "leave"]


class TestTurns:
    def test_two_runs_have_the_same_orders(self) -> None:
        """A figure that is strange can be had again."""
        once, again = ([turns("g", number, "ABCDE") for number in range(8)] for _ in range(2))

        assert once == again

    def test_pairs_of_rounds_and_groups_are_drawn_by_themselves(self) -> None:
        """Otherwise each case would have one predecessor, or two, in everything that is measured.

        Of 24 orders eight that are drawn are hardly ever fewer than four, of either.
        """
        pairs = {tuple(turns("g", number, "ABCD")) for number in range(0, 16, 2)}
        groups = {tuple(turns(f"g{number}", 0, "ABCD")) for number in range(8)}

        assert len(pairs) >= 4
        assert len(groups) >= 4

    def test_every_case_has_its_turn(self) -> None:
        """Once in each round."""
        rounds = [turns("g", number, "ABCDE") for number in range(8)]

        assert [sorted(order) for order in rounds] == [list("ABCDE")] * 8


class TestOutcomes:
    def test_quantities_are_kept_for_each_round(self) -> None:
        """What a round counted is no time, and is reported beside it."""
        case = Case("A", noting("A", [], Outcome(quantities={"rows kept": 3.0})))

        measured = measure(Group(name="g", title="t", operations=1, cases=[case]), ROUNDS, nothing)

        assert measured[0].quantities == {"rows kept": [3.0, 3.0]}

    def test_cases_that_disagree_have_no_figures(self) -> None:
        """Whoever computes something else is not faster, but wrong."""
        cases = [
            Case("A", noting("A", [], Outcome(answer=lambda: [1, 2]))),
            Case("B", noting("B", [], Outcome(answer=lambda: [1, 3]))),
        ]

        with pytest.raises(DisagreementError, match=r"'B' computed \[1, 3\], but 'A' computed"):
            measure(Group(name="g", title="t", operations=1, cases=cases), ROUNDS, nothing)

    def test_points_of_a_sweep_agree_where_they_are_alike(self) -> None:
        """Cases of different size have different answers."""
        cases = [
            Case("A", noting("A", [], Outcome(answer=partial(int, 1))), series="s", at=1),
            Case("B", noting("B", [], Outcome(answer=partial(int, 2))), series="s", at=2),
        ]

        measured = measure(Group(name="g", title="t", operations=1, cases=cases), ROUNDS, nothing)

        assert [len(found.cpu) for found in measured] == [2, 2]


class TestPeers:
    def test_a_peer_that_is_not_installed_is_absent_by_name(self) -> None:
        """It is reported, and the others are measured."""
        order: list[str] = []
        cases = [
            Case("A", noting("A", order)),
            Case("peer", noting("peer", order), needs=("no_such_package",)),
        ]

        measured = measure(Group(name="g", title="t", operations=1, cases=cases), ROUNDS, nothing)

        assert measured[1].absent == "no_such_package is not installed"
        assert set(order) == {"A"}

    def test_a_peer_that_breaks_on_import_is_absent_with_its_reason(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A package that raises anything at all must not end the run."""
        (tmp_path / "broken_peer.py").write_text("raise RuntimeError('no such lib')\n")
        monkeypatch.syspath_prepend(tmp_path)
        cases = [Case("A", noting("A", [])), Case("B", noting("B", []), needs=("broken_peer",))]

        measured = measure(Group(name="g", title="t", operations=1, cases=cases), ROUNDS, nothing)

        assert measured[1].absent == "broken_peer cannot be imported: RuntimeError: no such lib"


class TestGroups:
    def test_a_target_names_a_case_that_there_is(self) -> None:
        """A bound for a case that was renamed would never be judged."""
        with pytest.raises(ValueError, match="has a target for 'B', but no such case"):
            Group(
                name="g",
                title="t",
                operations=1,
                cases=[Case("A", noting("A", []))],
                targets=[Target(case="B", at_most=1)],
            )

    def test_a_target_has_one_bound(self) -> None:
        """Neither none nor two."""
        with pytest.raises(ValueError, match="either at_most or at_least"):
            Target(case="A", at_most=1, at_least=1)

    def test_the_base_of_a_group_is_always_there(self) -> None:
        """Ratios to a peer that may be absent would be none."""
        with pytest.raises(ValueError, match="must not need anything"):
            Group(
                name="g",
                title="t",
                operations=1,
                cases=[Case("A", noting("A", []), needs=("lmdb",))],
            )

    def test_two_cases_have_two_names(self) -> None:
        """A target or a base could not tell them apart."""
        with pytest.raises(ValueError, match="two cases of 'g' have one name"):
            Group(
                name="g",
                title="t",
                operations=1,
                cases=[Case("A", noting("A", [])), Case("A", noting("A", []))],
            )
