"""A plot of groups of bars, as SVG."""
COLOURS = ["#4477aa", "#cc6677", "#117733", "#999933"]
BAR, GAP, HIGH, TOP = 22, 26, 220, 30


def bars(groups):
    """`groups`: the name of each group, and in it the value of each series by name."""
    series = list(dict.fromkeys(name for group in groups.values() for name in group))
    most = max(value for group in groups.values() for value in group.values()) or 1
    wide = 40 + len(groups) * (len(series) * BAR + GAP)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="10">'
           % (wide, HIGH + TOP + 80)]
    for i, name in enumerate(series):
        out.append('<text x="%d" y="14" fill="%s">%s</text>' % (40 + 110 * i, COLOURS[i % len(COLOURS)], name))
    x = 40
    for name, group in groups.items():
        for i, one in enumerate(series):
            value = group.get(one, 0)
            high = value / most * HIGH
            out.append('<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="%s"/><text x="%d" y="%.1f">%.3g</text>'
                       % (x + i * BAR, TOP + HIGH - high, BAR - 2, high, COLOURS[i % len(COLOURS)], x + i * BAR, TOP + HIGH - high - 2, value))
        out.append('<text transform="translate(%d %d) rotate(25)">%s</text>' % (x, TOP + HIGH + 14, name))
        x += len(series) * BAR + GAP
    return "\n".join(out + ["</svg>\n"])
