// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import scala.xml.{Elem, Unparsed}

/** Colours and sizes of the drawings. Five blues for how much, orange for what moves: they differ
  * for people with the common colour deficiencies, and moving bins are hatched or framed as well.
  */
private[ui] object Style {
  private val Light =
    "--c0:#e9eef4;--c1:#c6dbef;--c2:#9ecae1;--c3:#6baed6;--c4:#3182bd;--c5:#08519c;" +
      "--move:#d95f02;--ink:#1f2937;--sub:#5b6470;--grid:#d7dce2;--bar:#7a8ca3;--lost:#b91c1c;--came:#08519c"
  private val Dark =
    "--c0:#2b3138;--c1:#1d3b57;--c2:#25557f;--c3:#3277ae;--c4:#58a3da;--c5:#b5dcf7;" +
      "--move:#ffa657;--ink:#e5e7eb;--sub:#a3acb8;--grid:#3a414a;--bar:#7a8ca3;--lost:#ff7b72;--came:#b5dcf7"

  private val Drawings = (0 to 5).map(i => s".megaphone .c$i{fill:var(--c$i)}").mkString("\n") + """
.megaphone svg text{fill:var(--ink);font:12px system-ui,sans-serif}
.megaphone svg text.s{fill:var(--sub);font-size:11px}
.megaphone svg text.e{text-anchor:end}
.megaphone .hatch{fill:var(--move)}
.megaphone rect.moving{fill:url(#megaphone-hatch);stroke:var(--move);stroke-width:1}
.megaphone rect.arrived{stroke:var(--move);stroke-width:1.5}
.megaphone .bar{fill:var(--bar)}
.megaphone .wait{fill:var(--move)}
.megaphone .grid{stroke:var(--grid)}
.megaphone .mark{stroke:var(--move);stroke-dasharray:3 2}
.megaphone .loss{stroke:var(--lost);stroke-width:2}
.megaphone .came{fill:var(--came)}
.megaphone .span{fill:var(--move);opacity:.12}
"""

  private val Tables = """
.megaphone .facts{display:flex;flex-wrap:wrap;gap:2rem;margin:.5rem 0 1rem}
.megaphone .facts b{display:block;font-size:1.25rem;font-weight:600}
.megaphone .facts span,.megaphone .sub{color:var(--sub)}
.megaphone .progress{height:.6rem}
.megaphone td.n,.megaphone th.n{text-align:right;font-variant-numeric:tabular-nums}
.megaphone details{margin:.25rem 0 .5rem}
.megaphone.stale{opacity:.5}
"""

  /** For a page of Spark's UI, which has a dark mode of its own. */
  val page: Elem = sheet(
    s".megaphone{$Light}\n[data-bs-theme=dark] .megaphone{$Dark}\n$Drawings$Tables"
  )

  /** For a notebook, which follows the system. */
  val notebook: Elem = sheet(
    s".megaphone{$Light}\n@media (prefers-color-scheme:dark){.megaphone{$Dark}}\n$Drawings"
  )

  /** The pattern of bins that move. */
  val hatch: Elem =
    <svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs><pattern
      id="megaphone-hatch" width="4" height="4" patternUnits="userSpaceOnUse"
      patternTransform="rotate(45)"><rect width="2" height="4" class="hatch"></rect></pattern>
    </defs></svg>

  private def sheet(css: String): Elem = <style>{Unparsed(css)}</style>
}
