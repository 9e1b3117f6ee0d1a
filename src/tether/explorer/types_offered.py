"""An episode of somebody whose type was never recorded: a page about the mixture, and the explorer of each type."""

from __future__ import annotations

from dataclasses import dataclass, field

from tether._foundation.words import percent
from tether.conditioning.counterfactual_record import CounterfactualRecord, with_mechanism
from tether.errors import Problem, QueryError
from tether.explanation.verdicts import Nouns
from tether.explorer.offered import Entry, Listed, Opening
from tether.observation.earned import model_return
from tether.plan.typed_record import TypedRecord


@dataclass(frozen=True)
class OfTypes:
    """The types that an episode leaves possible, the likeliest first; ``cf`` answers the page about all of them."""

    cf: TypedRecord
    title: str = ""
    nouns: Nouns = field(default_factory=Nouns)

    @property
    def names(self) -> tuple[str, ...]:
        """The types; the key of each is its number here."""
        posterior = self.cf.posterior
        return tuple(sorted(self.cf.possible, key=lambda name: -posterior[name]))

    @property
    def first(self) -> str:
        """The likeliest."""
        return "0"

    def entry(self, key: str) -> Entry:
        """One type: what would be known if the type were."""
        if key not in map(str, range(len(self.names))):
            raise QueryError(Problem(f"there is no type {key[:60]!r} here: choose one of the list", value=key))
        name = self.names[int(key)]
        lines = "cf = tether.counterfactual(types, path)", f"one = cf.by_type[{name!r}]"
        return Entry(
            key,
            name,
            lambda: self._anew(name),
            Opening((), lines),
            title=f"As if the type were known: {name}",
            nouns=self.nouns,
        )

    def _anew(self, name: str) -> CounterfactualRecord:
        one = self.cf.by_type[name]
        return with_mechanism(one, one.mechanism)

    def listed(self) -> list[Listed]:
        """Each type, and how likely it is."""
        posterior, found = self.cf.posterior, []
        for i, name in enumerate(self.names):
            one = self.cf.by_type[name]
            about = f"{percent(posterior[name])} likely after the episode"
            found.append(Listed(str(i), name, one.T, "", model_return(one.mdp, one.observation), about))
        return found
