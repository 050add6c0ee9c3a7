"""Go back to an earlier reply: native replies to the agent's messages, and /reply."""
