"""The air of Bordeaux's streets: from raw measurements to what a street says of its air, with the quality of that.

`measurements`, `calibration`, `index`, `streets` and `context` are pure and know no node, so that a pipeline can use them as
well; `scenario` plays them to a node, `picture` draws what happened.
"""
