"""Operations that other context sources take part in (clause 4.3.6): who is asked, and what becomes of the answers.

`hanse.ngsild.distributed` says who has which part of a request; here it is sent there and the answers are put together.
"""
