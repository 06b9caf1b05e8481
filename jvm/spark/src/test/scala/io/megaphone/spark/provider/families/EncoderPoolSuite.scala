// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import org.apache.spark.sql.execution.streaming.state.{
  NoPrefixKeyStateEncoderSpec, PrefixKeyScanStateEncoderSpec, StateStoreId
}
import org.apache.spark.sql.types.{LongType, StructType}
import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.plan.Operator

/** A task works with the families that the last one gave back, as long as they are what they were
  * created as.
  */
class EncoderPoolSuite extends AnyFunSuite {
  private val keys = new StructType().add("a", LongType).add("b", LongType)
  private val plain = ColumnFamilySpec(
    NoPrefixKeyStateEncoderSpec(keys),
    keys,
    isMultiValued = false,
    isInternal = false
  )
  private val prefixed = plain.copy(keys = PrefixKeyScanStateEncoderSpec(keys, 1))
  private val operator =
    Operator(0, "stateStoreSave", Vector(StateStoreId.DEFAULT_STORE_NAME), Vector("one", "other"))

  private final class Provider {
    val created = new ColumnFamilyRegistry(plain, areUsed = true)
    private val pool = new EncoderPool
    created.create("one", plain)
    created.create("other", plain)

    def take(of: Operator = operator): ColumnFamilies =
      pool.take(
        of,
        new ColumnFamilies(
          created,
          of,
          StateStoreId.DEFAULT_STORE_NAME,
          binsCount = 4,
          schemas = None,
          checksums = None
        )
      )

    /** What a task leaves that has used one of the two. */
    val used: ColumnFamilies = take()
    private val family = used("get", "one")
    pool.giveBack(used)

    def isKept: Boolean = take() match { case f => (f eq used) && (f("get", "one") eq family) }
  }

  test("They are taken by one task at a time.") {
    val provider = new Provider
    assert(provider.isKept)
    assert(!provider.isKept, "two tasks have the same families")
  }

  test("They serve no other operator.") {
    val provider = new Provider
    assert(provider.take(operator.copy(families = Vector("one", "other", "more"))) ne provider.used)
  }

  test(
    "They are made anew where one that was used is created as something else, and not where one " +
      "that was not."
  ) {
    val changed = new Provider
    changed.created.remove("one")
    changed.created.create("one", prefixed)
    val anew = changed.take()
    assert(anew ne changed.used)
    assert(anew("prefixScan", "one").hasPrefix)
    val same = new Provider
    same.created.remove("other")
    same.created.create("other", prefixed)
    assert(same.isKept)
  }
}
