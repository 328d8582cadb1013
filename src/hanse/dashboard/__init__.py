"""The page that a person looks at: a federation as it lives, read from the nodes' own APIs.

- `watching`: what the nodes say, asked again and again, once for all who look;
- `steering`: what a person changes or tries at them; `stories`: the three of the first page, step by step;
- `topology`, `mosquitto`, `rules`, `characterising`: what is edited here, as values that say what is wrong with them;
- `frame`: what every page has: navigation, light and dark, who answers and who does not;
- `views`: a module for each page; `view.show(watch)` builds it for one visitor;
- `app`: the pages together, and `run`.

It imports nothing of the node: whatever it shows or changes goes over HTTP, so it can run anywhere. It needs `hanse[dashboard]`.
"""
