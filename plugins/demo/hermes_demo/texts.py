"""What the demo model says at length."""

from __future__ import annotations

from typing import Final

__all__ = ["HELP", "JOBS", "SETUP", "SHELL", "STORY"]

SETUP: Final = """\
To talk to a real model, write this into `hermes.toml` (with the name and address of yours) and start again:

```toml
[model]
provider = "openai"                     # any server that speaks the OpenAI API
name = "qwen3:8b"
base_url = "http://127.0.0.1:11434/v1"
# api_key_env = "OPENAI_API_KEY"        # the variable that holds the key, where one is needed
```"""

HELP: Final = f"""\
I am the **demo model**: offline, without any understanding, and the same words always get the same answer. I know
these requests:

| write | to see |
|---|---|
| `hello`, or anything | a short answer, and that I remember what was said |
| `what did I say first?`, `what did I say before?` | memory, also after a restart |
| `count to 50`, `tell me a long story` | a long answer, slow enough to interrupt or steer |
| `what time is it?` | a tool call |
| `sleep 20` | a tool that runs a real process; interrupt it |
| `time and sleep 2` | two tools at once |
| `run ls -l` | a shell command, where the plugin `shell` is enabled |
| `start make test` | a job that goes on while we talk, where jobs are there |

While I answer, just write: by default that interrupts me. `/steer TEXT` lets me finish and then shows me TEXT,
`/queue TEXT` waits its turn, `/stop` stops me. `/help` lists every command.

{SETUP}"""

SHELL: Final = """\
I cannot run commands here: the tool `run_command` is not offered to me. It comes with the plugin `shell`, for owners
and admins only:

```toml
[plugins.shell]
enabled = true
```"""

JOBS: Final = """\
I cannot start jobs here: the tool `start_command` is not offered to me. It needs the plugins `shell` and `jobs`; where
they are not there yet, `run COMMAND` runs a command and waits for it, and `sleep 20` shows a tool at work."""

STORY: Final = """\
# The ferry at Halden

This is a long answer on purpose: long enough to interrupt, to steer, or to queue something behind it.

## What the ferry was

For forty years one ferry crossed the fjord at Halden, and for forty years the same three rules hung beside its wheel,
painted by the first ferryman for the second:

1. **Nobody who has paid is left on the shore.** A ticket is a promise.
2. **Nobody is carried twice for one ticket.** That, too, is a promise.
3. *The bell is answered at once*, whatever else is being done.

The second ferryman thought them simple. Then came the winter of the long fog.

## The night of the fog

On the first evening eleven people stood on the far shore and could not be seen. The ferryman rang, and someone rang
back; he rang twice, and heard two. He began to write down every bell:

| hour | shore | bells | carried |
|---|---|---|---|
| six | north | 4 | 4 |
| seven | south | 7 | 6 |
| eight | south | 1 | 1 |

At seven one bell had no passenger. He could have shrugged. Instead he turned the boat in the middle of the fjord,
went back along the line of his own wake, and found a boy who had gone to fetch his dog and rung before he went.

> "You came back for a bell?" said the boy.
>
> "I came back for the line in my book," said the ferryman. "It had no end."

## What he wrote beside the wheel

In spring he added a fourth rule under the other three. It was longer, because he was a careful man, and it looked
almost like the programs that people write today:

```python
for bell in book:
    if bell.carried is None:
        turn_back(bell)
```

- A bell that is written down can be answered late.
- A bell that is only remembered is forgotten with the one who remembers.
- So: *first the book, then the oar.*

The fjord has a bridge now. The book lies in a glass case in the toll house, open at the night of the fog, and every
line in it has an end."""
