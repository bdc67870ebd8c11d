"""What the runs of a comparison show, in a few sentences that claim no more than the records."""

from collections.abc import Iterable, Sequence

from rda.report.reading import GoalLine
from rda.report.seeds import have_seeds, over_seeds
from rda.report.summary import Summary, labels, measure, ranking
from rda.report.wording import count, number
from rda.training.status import RUNNING
from rda.wording import listed

Labelled = tuple[str, Summary]


def headline(summaries: Sequence[Summary], goal: GoalLine | None) -> str:
    """Who reached the goal first, or has the best metric; who did not, and why."""
    ranked = ranking(summaries)
    names = labels(ranked)
    runs = list(zip(names, ranked, strict=True))
    if have_seeds(ranked):
        sentences = over_seeds(ranked, goal)
    else:
        sentences = _by_metric(runs) if goal is None else _by_goal(runs, goal)
    return " ".join([*sentences, *_cut_short(runs), *_caution(ranked)])


def _by_goal(runs: list[Labelled], goal: GoalLine) -> list[str]:
    reached = [(label, run.goal_step) for label, run in runs if run.goal_step is not None]
    others = [run for _, run in runs if run.goal_step is None]
    missed = list(_missed(runs))
    if not reached:
        return [f"{who} did not reach {goal} within {steps} steps." for who, steps in missed]
    earliest = reached[0][1]
    first = [label for label, step in reached if step == earliest]
    sentence = f"{listed(first)} reached {goal}"
    if len(runs) > len(first):
        may_be_overtaken = any(run.step < earliest for run in others)
        sentence += ", the first so far," if may_be_overtaken else " first,"
    sentence += f" at step {count(earliest)}"
    later = [f"{label} at {count(step)}" for label, step in reached if step > earliest]
    if later:
        sentence += f", then {listed(later)}"
    return ["; ".join([sentence, *(f"{who} did not within {n} steps" for who, n in missed)]) + "."]


def _missed(runs: Iterable[Labelled]) -> Iterable[tuple[str, str]]:
    """Runs that came to a limit without reaching the goal, grouped by that limit."""
    groups: dict[int, list[str]] = {}
    for label, run in runs:
        if run.ended and run.goal_step is None:
            groups.setdefault(run.step, []).append(label)
    return ((listed(group), count(step)) for step, group in groups.items())


def _by_metric(runs: list[Labelled]) -> list[str]:
    measured = measure([run for _, run in runs])
    values = [(label, getattr(run, measured)) for label, run in runs if run.ended]
    known = [(label, number(value)) for label, value in values if value is not None]
    if not known:
        return []
    (best, value), *others = known
    kind = "training" if measured == "metric" else measured
    what = f"{kind} {runs[0][1].metric_name}"
    if not others:
        return [f"{best} has a {what} of {value}."]
    followed = listed([f"{label} has {value}" for label, value in others])
    return [f"{best} has the best {what}, {value}; {followed}."]


def _cut_short(runs: Iterable[Labelled]) -> Iterable[str]:
    """A run that did not come to its end is no result: only its step is told."""
    for label, run in runs:
        if run.ended or run.goal_step is not None:
            continue
        if run.state == RUNNING:
            yield f"{label} is still running, at step {count(run.step)}."
        else:
            yield f"{label} was cut short ({run.state}) at step {count(run.step)}."


def _caution(summaries: Iterable[Summary]) -> Iterable[str]:
    """Runs that differ in more than unit and seed are not comparable without a warning."""
    settings = {
        tuple(difference for difference in run.differences if not difference.startswith("seed "))
        for run in summaries
    }
    if len(settings) > 1:
        yield "Not all runs have the same settings."
