"""One colour a unit, the same in terminal, picture and page.

The five compared units stay at least 19 apart (CIE76) for every kind of colour vision, all of
them 16; each has a contrast of 3 or more on white and on the page's dark ground.
"""

COLOURS = {
    "RDA-exp-tanh": "#d55e00",
    "RDA-sigmoid-id": "#0072b2",
    "RWA": "#9235fe",
    "LSTM": "#0fa793",
    "GRU": "#8a7a4a",
    "RDA-exp-id": "#c90322",
    "RDA-sigmoid-tanh": "#8e91be",
    "RDA-softplus-tanh": "#596d5b",
    "RDA-softplus-id": "#6e4fd0",
    "RDA-relu-tanh": "#9b467e",
    "RDA-relu-id": "#c176e5",
}
