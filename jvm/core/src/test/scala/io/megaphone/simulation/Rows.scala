// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import io.megaphone.format.StoreId

/** One row of a batch. What a store does with it follows from its number and the store's state, and
  * where the query is not deterministic, from the attempt.
  */
final case class Row(key: Int, number: Long) {

  /** The stamp that a store has for the key afterwards: 0 if none, `before` if the row changes
    * nothing.
    */
  def effect(store: StoreId, salt: Long, before: Long): Long = {
    val h = Dice.mix(number ^ store.hashCode.toLong ^ Dice.mix(salt))
    (h >>> 8) & 7 match {
      case 0 | 1 => 0L
      case 2 => before
      case _ => Dice.mix(h + before) | 1L
    }
  }
}

object Rows {

  /** The rows of a batch, which follow from what its offset log says. */
  def of(setup: Setup, group: Long, batch: Long, offset: Long): Vector[Row] = {
    val dice = new Dice(Dice.mix(offset ^ (group << 32) ^ batch))
    val hot = dice.below(setup.keys) // as in life, some keys come again and again
    Vector.fill(dice.below(setup.rows + 1))(
      Row(if (dice.chance(0.4)) hot else dice.below(setup.keys), dice.long())
    )
  }

  /** The same rows as another attempt may see them: keys in another order, the rows of a key in
    * theirs.
    */
  def reordered(rows: Vector[Row], salt: Long): Vector[Row] =
    rows.sortBy(r => Dice.mix(r.key ^ salt))
}
