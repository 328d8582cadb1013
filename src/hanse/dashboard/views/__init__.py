"""The pages, a module each: `async def show(watch, shown)` builds one for a visitor, within `frame`."""
