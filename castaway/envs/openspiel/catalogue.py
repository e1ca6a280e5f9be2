"""The twenty games. Task ids depend on the number and order of games and variants, so these must not change."""

from __future__ import annotations

from castaway.envs.openspiel.games import Game, Variant

_MARKS = ("x", "o")
_COMPASS = ("North", "East", "South", "West")

GAMES: tuple[Game, ...] = (
    Game(
        "tic_tac_toe",
        "Take turns to mark a cell; three of your marks in a row, column or diagonal win.",
        "gain",
        "observation",
        (Variant("standard", {}, 0.412),),
        _MARKS,
        open=True,
        dense=True,
    ),
    Game(
        "connect_four",
        "Take turns to drop a mark into a column; enough of your marks in a line win (three on 4x5, otherwise four).",
        "gain",
        "observation",
        (
            Variant("4x5", {"rows": 4, "columns": 5, "x_in_row": 3}, 0.499),
            Variant("5x6", {"rows": 5, "columns": 6, "x_in_row": 4}, 0.475),
            Variant("standard", {}, 0.473),
        ),
        _MARKS,
        open=True,
        dense=True,
    ),
    Game(
        "kuhn_poker",
        "The higher card wins the pot; the text is your card (0 is the lowest), then the moves so far: p for pass, "
        "b for bet. Who passes on a bet gives up.",
        "gain",
        "information",
        (Variant("two players", {}, 0.508), Variant("three players", {"players": 3}, 0.344)),
    ),
    Game(
        "leduc_poker",
        "Two rounds of betting with a public card between them: a pair with it wins, else the higher rank; cards "
        "2k and 2k+1 have the same rank.",
        "gain",
        "observation",
        (Variant("two players", {}, 0.46), Variant("three players", {"players": 3}, 0.377)),
    ),
    Game(
        "liars_dice",
        "Bid how many dice of all players show a face (count-face), each bid above the last, sixes being wild; "
        "Liar ends it, and whoever was wrong loses.",
        "gain",
        "information",
        (
            Variant("one die", {"numdice": 1}, 0.498),
            Variant("two dice", {"numdice": 2}, 0.49),
            Variant("five dice", {"numdice": 5}, 0.493),
        ),
    ),
    Game(
        "goofspiel",
        "Every round both bid a card in secret; the higher bid takes the point card, equal bids take nothing. Most "
        "points win.",
        "gain",
        "information",
        (
            Variant("3 cards", {"num_cards": 3, "points_order": "descending", "imp_info": True}, 0.366),
            Variant("4 cards", {"num_cards": 4, "points_order": "descending", "imp_info": True}, 0.399),
            Variant("8 cards", {"num_cards": 8, "points_order": "random", "imp_info": True}, 0.471),
        ),
    ),
    Game(
        "phantom_ttt",
        "Tic-tac-toe in the dark: you see your own marks and those that you ran into; a try at a taken cell shows it "
        "and you choose again.",
        "gain",
        "observation",
        (Variant("silent", {}, 0.432), Variant("counted", {"obstype": "reveal-numturns"}, 0.435)),
        _MARKS,
        dense=True,
    ),
    Game(
        "dark_hex",
        "Hex in the dark: X joins top and bottom, O joins left and right; a try at a taken cell shows it and you "
        "choose again.",
        "gain",
        "observation",
        (
            Variant("2x2", {"board_size": 2}, 0.499),
            Variant("3x3", {"board_size": 3}, 0.503),
            Variant("4x4", {"board_size": 4}, 0.487),
        ),
        _MARKS,
        dense=True,
    ),
    Game(
        "hex",
        "Take turns to mark a cell: X joins top and bottom, O joins left and right; each cell has six neighbours.",
        "gain",
        "observation",
        (
            Variant("3x3", {"board_size": 3}, 0.498),
            Variant("5x5", {"board_size": 5}, 0.511),
            Variant("7x7", {"board_size": 7}, 0.49),
        ),
        _MARKS,
        open=True,
    ),
    Game(
        "clobber",
        "Move one of your marks onto a neighbouring mark of the other side, which is taken; who cannot move loses.",
        "gain",
        "observation",
        (
            Variant("3x4", {"rows": 3, "columns": 4}, 0.505),
            Variant("4x5", {"rows": 4, "columns": 5}, 0.49),
            Variant("5x5", {"rows": 5, "columns": 5}, 0.507),
        ),
        ("o", "x"),
        open=True,
        dense=True,
    ),
    Game(
        "dots_and_boxes",
        "Draw a line, h for horizontal and v for vertical, by row and column; who closes a box owns it and draws "
        "again. Most boxes win.",
        "gain",
        "observation",
        (
            Variant("1x2", {"num_rows": 1, "num_cols": 2}, 0.379),
            Variant("2x2", {"num_rows": 2, "num_cols": 2}, 0.433),
            Variant("3x3", {"num_rows": 3, "num_cols": 3}, 0.497),
        ),
        ("player 1", "player 2"),
        open=True,
    ),
    Game(
        "nim",
        "Take any number from one pile; who takes the last one loses.",
        "gain",
        "observation",
        (Variant("1 2 3", {"pile_sizes": "1;2;3"}, 0.482), Variant("1 3 5 7", {"pile_sizes": "1;3;5;7"}, 0.481)),
        open=True,
    ),
    Game(
        "go",
        "Place stones; stones without a free neighbour are taken, and two passes end it. Most stones and surrounded "
        "points win, komi going to White.",
        "gain",
        "observation",
        (
            Variant("3x3", {"board_size": 3, "komi": 2.5}, 0.478),
            Variant("5x5", {"board_size": 5, "komi": 5.5}, 0.498),
            Variant("7x7", {"board_size": 7, "komi": 7.5}, 0.488),
        ),
        ("Black, X", "White, O"),
        open=True,
        dense=True,
    ),
    Game(
        "othello",
        "Place a mark so that marks of the other side are caught between two of yours and turn over; most marks win.",
        "gain",
        "observation",
        (Variant("standard", {}, 0.486),),
        ("Black, x", "White, o"),
        open=True,
    ),
    Game(
        "pig",
        "Roll to add to your turn total, stop to keep it; a 1 loses the turn total and the turn. First to the "
        "target wins.",
        "gain",
        "observation",
        (
            Variant("to 10", {"winscore": 10, "horizon": 100}, 0.521),
            Variant("to 20", {"winscore": 20, "horizon": 200}, 0.501),
            Variant("to 50", {"winscore": 50, "horizon": 500}, 0.529),
        ),
    ),
    Game(
        "blackjack",
        "Come nearer to 21 than the dealer without going over; aces count 1 or 11, and the dealer stands on 17.",
        "gain",
        "observation",
        (Variant("standard", {}, 0.263),),
    ),
    Game(
        "sheriff",
        "The smuggler loads illegal items and offers bribes; in the last round the sheriff takes the bribe or "
        "inspects: found items cost a fine, a search for nothing costs the sheriff.",
        "first",
        "information",
        (
            Variant("1 round", {"num_rounds": 1}, 0.475),
            Variant("2 rounds", {"num_rounds": 2}, 0.492),
            Variant("4 rounds", {"num_rounds": 4}, 0.471),
        ),
        ("the smuggler", "the sheriff"),
    ),
    Game(
        "euchre",
        "North and South against East and West: name trumps, then follow suit; the makers need three of five tricks.",
        "gain",
        "observation",
        (Variant("standard", {}, 0.479), Variant("lone defender", {"allow_lone_defender": True}, 0.475)),
        _COMPASS,
    ),
    Game(
        "hearts",
        "Follow suit; the highest card of the suit led takes the trick. Each heart taken costs 1 point, QS 13, "
        "and JD saves 10 where it counts; fewest points win.",
        "first",
        "information",
        (Variant("standard", {}, 0.188), Variant("jack of diamonds", {"jd_bonus": True}, 0.224)),
        _COMPASS,
    ),
    Game(
        "oh_hell",
        "Bid how many tricks you will take, then follow suit; each trick is a point and an exact bid 10 more.",
        "first",
        "information",
        (
            Variant("1 trick", {"num_tricks_fixed": 1}, 0.245),
            Variant("3 tricks", {"num_tricks_fixed": 3}, 0.296),
            Variant("standard", {}, 0.302),
        ),
    ),
)
