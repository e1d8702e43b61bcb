"""The looks of a report, in light and dark: text has a contrast of at least 4.5, marks of 3."""

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1a1d21;--soft:#52585f;--line:#cdd2d8;--grid:#e4e7eb;--panel:#f5f6f8;
--link:#0b57a4;--more:#0b6bcb;--less:#b34700;
--c0:#0062a3;--c1:#b34700;--c2:#00704f;--c3:#9b3d7a;--c4:#7a5c00;--c5:#1d7590;--c6:#4a4a4a;--c7:#c0392b;--c8:#5b4bb5;
--c9:#5a7400;--none:#767c83}
@media (prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e9ebee;--soft:#a9b1ba;--line:#444c55;--grid:#2b3138;
--panel:#1d2125;--link:#79b8ff;--more:#58a6ff;--less:#ff9d5c;
--c0:#6cb6ff;--c1:#ff9d5c;--c2:#4fd1a5;--c3:#f29acb;--c4:#e6c15c;--c5:#7fd6ec;--c6:#cfcfcf;--c7:#ff8b80;--c8:#b3a6ff;
--c9:#b8d65c;--none:#8b939c}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
a{color:var(--link)}
.skip{position:absolute;left:-999px;top:0;padding:.5rem 1rem;background:var(--bg)}
.skip:focus{left:0;z-index:2}
header,main,footer,nav{padding:0 1rem}
header{padding-top:1.2rem}
footer{padding-bottom:2rem;color:var(--soft);font-size:.9rem}
h1{font-size:1.6rem;line-height:1.25;margin:.2rem 0;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:2.2rem 0 .6rem;padding-top:.8rem;border-top:1px solid var(--line)}
p{max-width:70ch;margin:.5rem 0;overflow-wrap:anywhere}
nav ul{display:flex;flex-wrap:wrap;gap:.1rem 1rem;list-style:none;margin:.6rem 0;padding:0;font-size:.95rem}
nav a{display:inline-block;padding:.2rem 0}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.6rem;margin:.6rem 0}
.facts div{background:var(--panel);border-radius:.4rem;padding:.6rem .8rem}
dt{color:var(--soft);font-size:.85rem}
dd{margin:0;font-size:1.15rem;font-weight:600;overflow-wrap:anywhere}
.scroll{overflow-x:auto;max-width:100%;margin:.8rem 0;border:1px solid var(--line);border-radius:.4rem;
width:fit-content}
.scroll:focus-visible,pre:focus-visible,a:focus-visible{outline:3px solid var(--link);outline-offset:2px}
table{border-collapse:collapse;font-size:.9rem}
caption{text-align:left;padding:.5rem .7rem;color:var(--soft);white-space:nowrap}
th,td{padding:.3rem .7rem;border-top:1px solid var(--grid);vertical-align:top}
thead th{border-top:1px solid var(--line);background:var(--panel);vertical-align:bottom}
tbody th{font-weight:600;min-width:5.5rem;max-width:16rem;overflow-wrap:break-word}
.words{text-align:left}
td.words{max-width:26rem;min-width:5rem;overflow-wrap:break-word}
td.long{min-width:11rem}
.numbers{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
thead .numbers{white-space:normal}
.more{background:color-mix(in srgb,var(--more) calc(var(--v)*40%),var(--bg))}
.less{background:color-mix(in srgb,var(--less) calc(var(--v)*40%),var(--bg))}
.bar{min-width:6.5rem;background:linear-gradient(to right,color-mix(in srgb,var(--more) 28%,var(--bg))
calc(var(--v)*100%),transparent 0)}
figure{margin:.8rem 0;max-width:560px}
figcaption{color:var(--soft);font-size:.9rem}
svg{display:block;width:100%;height:auto}
svg text{font-size:11px;fill:var(--fg)}
.middle{text-anchor:middle}
.end{text-anchor:end}
.grid{stroke:var(--grid);fill:none}
.frame{stroke:var(--soft);fill:none}
.line{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}
.thin{stroke-width:1}
.dashed{stroke:var(--soft);stroke-dasharray:4 4;stroke-width:1}
.mark{fill:currentColor;fill-opacity:.8}
.outline{fill:none;stroke:currentColor;stroke-width:1.8}
.outline.thin{stroke-width:1;stroke-dasharray:3 2}
.area{fill:currentColor}
svg .label{fill:currentColor;font-weight:700;text-anchor:middle;paint-order:stroke;stroke:var(--bg);stroke-width:3px}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}.c4{color:var(--c4)}.c5{color:var(--c5)}
.c6{color:var(--c6)}.c7{color:var(--c7)}.c8{color:var(--c8)}.c9{color:var(--c9)}.none{color:var(--none)}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;list-style:none;margin:.3rem 0;padding:0;font-size:.9rem}
.legend li{display:flex;align-items:center;gap:.3rem}
.key{width:14px;height:14px;flex:none}
pre{overflow-x:auto;background:var(--panel);border-radius:.4rem;padding:.8rem;font-size:.85rem}
@media (min-width:60rem){
header,main,footer,nav{max-width:76rem;margin-inline:auto;padding-inline:2rem}
main{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:0 2rem;align-items:start}
section{grid-column:1/-1;min-width:0}
section.half{grid-column:auto}
.beside{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:1rem 2rem;align-items:start}
}
@media print{nav,.skip{display:none}.scroll{overflow:visible}}
"""
