// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.openjdk.jmh.annotations._
import org.openjdk.jmh.infra.Blackhole

/** Operations on single keys, time per row: the cases of Spark's own basic-operations benchmark, at
  * a size that does not fit a processor's cache.
  */
abstract class KeyOperations extends StoreOfProvider {
  import StoreOfProvider._

  @Param(Array("2000000"))
  var keys: Int = _

  protected var present: Array[UnsafeRow] = _
  protected var absent: Array[UnsafeRow] = _
  protected var values: Array[UnsafeRow] = _

  override protected def load(): Unit = {
    (0 until keys).foreach(i => store.put(key(i, i * 31L), value(i)))
    val random = new scala.util.Random(7)
    present = Array.fill(KeyOperations.Rows) { val i = random.nextInt(keys); key(i, i * 31L) }
    absent = Array.tabulate(KeyOperations.Rows)(i => key(keys + i, 0))
    values = Array.tabulate(KeyOperations.Rows)(i => value(i + 1))
  }
}

object KeyOperations {
  final val Rows = 10000
}

class StoreOperations extends KeyOperations {
  import KeyOperations.Rows

  @Benchmark @OperationsPerInvocation(Rows)
  def putOverwrite(): Unit = {
    var i = 0; while (i < Rows) { store.put(present(i), values(i)); i += 1 }
  }

  @Benchmark @OperationsPerInvocation(Rows)
  def putNew(): Unit = { var i = 0; while (i < Rows) { store.put(absent(i), values(i)); i += 1 } }

  @Benchmark @OperationsPerInvocation(Rows)
  def get(hole: Blackhole): Unit = {
    var i = 0; while (i < Rows) { hole.consume(store.get(present(i))); i += 1 }
  }

  @Benchmark @OperationsPerInvocation(Rows)
  def remove(): Unit = { var i = 0; while (i < Rows) { store.remove(present(i)); i += 1 } }

  @Benchmark @OperationsPerInvocation(Rows)
  def scan(hole: Blackhole): Unit = {
    val all = store.iterator(); var i = 0;
    while (i < Rows && all.hasNext) { hole.consume(all.next().value); i += 1 }; all.close()
  }
}

/** Adds a value to a key that has one or several. Spark's hash map cannot do this. */
class StoreMerge extends KeyOperations {
  import KeyOperations.Rows

  override protected def isMultiValued: Boolean = true

  @Benchmark @OperationsPerInvocation(Rows)
  def merge(): Unit = { var i = 0; while (i < Rows) { store.merge(present(i), values(i)); i += 1 } }
}

/** A batch that changes `Rows` keys, and its commit: time per changed row. With the puts, for a
  * store may write while it is changed, or at the end. Each batch goes on from the one before.
  */
class StoreCommit extends KeyOperations {
  import KeyOperations.Rows

  @Benchmark @OperationsPerInvocation(Rows)
  def putAndCommit(): Unit = {
    var i = 0; while (i < Rows) { store.put(present(i), values(i)); i += 1 };
    version = store.commit()
  }

  /** With what the commit leaves to be done: Spark's own stores write their snapshots later, by a
    * thread of its own; this plugin's are in the commits.
    */
  @Benchmark @OperationsPerInvocation(Rows)
  def putCommitAndMaintain(): Unit = { putAndCommit(); maintain() }

  /** With the opening of the next task's: the hash map of Spark's own is copied as it is opened. */
  @Benchmark @OperationsPerInvocation(Rows)
  def putCommitAndOpen(): Unit = { putAndCommit(); close(); open() }
}
