// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import scala.xml.{Elem, NodeSeq}

/** The few shapes that drawings are made of. Units are those of the drawing's view box. */
private[ui] object Svg {

  /** About the width of a text of `size` s: enough to keep texts apart. */
  def widthOf(text: String): Int = math.ceil(text.length * 6.3).toInt

  /** A drawing that grows with the page, up to a quarter more than its own size.
    *
    * @param label
    *   what it shows, for who cannot see it
    */
  def drawing(width: Int, height: Int, label: String)(content: NodeSeq): Elem =
    <svg role="img" viewBox={s"0 0 $width $height"} width="100%"
      style={s"max-width:${width * 5 / 4}px"} aria-label={label}>{content}</svg>

  def rect(kind: String, x: Int, y: Int, width: Int, height: Int): Elem =
    <rect class={kind} x={s"$x"} y={s"$y"} width={s"$width"} height={s"$height"}></rect>

  /** A rectangle that says what it is when it is pointed at. */
  def rect(kind: String, x: Int, y: Int, width: Int, height: Int, title: String): Elem =
    rect(kind, x, y, width, height).copy(child = <title>{title}</title>)

  def text(kind: String, x: Int, y: Int, content: String): Elem =
    <text class={kind} x={s"$x"} y={s"$y"}>{content}</text>

  /** A line that says what it is when it is pointed at. */
  def line(kind: String, x1: Int, y1: Int, x2: Int, y2: Int, title: String): Elem =
    line(kind, x1, y1, x2, y2).copy(child = <title>{title}</title>)

  def dot(kind: String, x: Int, y: Int, title: String): Elem =
    <circle class={kind} cx={s"$x"} cy={s"$y"} r="3"><title>{title}</title></circle>

  def line(kind: String, x1: Int, y1: Int, x2: Int, y2: Int): Elem =
    <line class={kind} x1={s"$x1"} y1={s"$y1"} x2={s"$x2"} y2={s"$y2"}></line>
}
