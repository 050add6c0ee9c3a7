"""Listed: people in `[access]` who can be nobody, because no platform has their name or gives such ids."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from hermes_core.adapter import AdapterFactory
from hermes_core.config import AccessSettings

__all__ = ["nobodies"]


def nobodies(
    access: AccessSettings, adapters: Mapping[str, AdapterFactory], others: Collection[str] = ()
) -> Iterator[str]:
    """A sentence for each of them, for who runs the program: what is wrong, and what to write instead.

    `others` are platforms of which nothing more is known, because their package is off, say.
    """
    known = {*adapters, *others}
    for key in ("owners", "admins", "allow"):
        for person in getattr(access, key):
            platform, _, id_ = person.partition(":")
            if person == "*":
                continue
            said = f'access.{key}: "{person[:60]}" is nobody: '
            if platform not in known:
                yield f"{said}there is no platform {platform[:40]!r} here.{_nearest(platform, adapters)}"
            elif platform in adapters and id_ != "*":
                form = adapters[platform].people
                if form is not None and not form.fits(id_):
                    yield f"{said}a user id there is {form.words}. See who wrote: hermes pair list"


def _nearest(word: str, known: Collection[str]) -> str:
    import difflib  # only a mistake needs it

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near else f" There are: {', '.join(sorted(known)) or 'none'}."
