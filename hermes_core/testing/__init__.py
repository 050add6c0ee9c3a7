"""What authors of adapters, plugins and stores test with; nothing in the house imports it.

Import from the module that you need: each brings its own dependencies, and this file brings none.
`memory` has `MemoryStore`, `store_contract` has `StoreContract`, `adapter_contract` has `AdapterContract`, which asks
for a `Driver` (`driver`).
"""
