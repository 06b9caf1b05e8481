// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.{Change, Changes}
import io.megaphone.format.Frame
import io.megaphone.log.BinLog
import io.megaphone.log.record.Record

/** The changes that are read from the frame of a commit, done to the bin before, give the bin
  * after: whether the frame is a tail or an image.
  */
class ChangesSuite extends AnyFunSuite {
  private type Rows = Map[(Int, String), String]

  private def put(log: BinLog, family: Int, key: String, value: String): Unit =
    log.put(family, key.getBytes, 0, key.length, value.getBytes, 0, value.length)

  private def logOf(rows: Rows): BinLog = {
    val log = new BinLog; rows.foreach { case ((f, k), v) => put(log, f, k, v) }; log.settle(); log
  }
  private def key(c: Change) = (c.family, new String(c.bytes, c.keyOffset, c.keyBytes))
  private def frame(isImage: Boolean) = Frame(3, isImage, null, 0, 0)

  test("tails and images tell the same of a batch, but for values set to what they were") {
    val random = new Random(2)
    for (_ <- 0 until 300) {
      val before: Rows = Seq
        .fill(random.nextInt(30))(
          (random.nextInt(2) * 512, s"k${random.nextInt(20)}") -> s"${random.nextInt(3)}"
        )
        .toMap
      val log = logOf(before)
      val after = mutable.Map.from(before)
      for (_ <- 0 until random.nextInt(30)) {
        val (family, name) = (random.nextInt(2) * 512, s"k${random.nextInt(20)}")
        if (random.nextInt(3) == 0) {
          log.append(family, name.getBytes, 0, name.length, "+".getBytes, 0, 1)
          after((family, name)) = after.getOrElse((family, name), "") + "+"
        } else if (random.nextBoolean()) {
          val value = s"${random.nextInt(3)}"; put(log, family, name, value);
          after((family, name)) = value
        } else if (log.remove(family, name.getBytes, 0, name.length)) after -= (family -> name)
      }
      val tail = log.tail()
      for ((isImage, records) <- Seq(false -> tail.toBytes, true -> log.image())) {
        val changes = Changes.of(frame(isImage), Vector(records), logOf(before))
        val done = changes.foldLeft(before) { (rows, c) =>
          val value = new String(c.bytes, c.valueOffset, c.valueBytes)
          if (c.kind == Record.Remove) rows - key(c)
          else
            rows + (key(c) -> (if (c.kind == Record.Append) rows.getOrElse(key(c), "") + value
                               else value))
        }
        assert(done == after.toMap)
        if (isImage)
          assert(
            changes
              .map(key)
              .distinct
              .size == changes.size && changes.size == (before.toSet
              .union(after.toSet)
              .map(_._1)
              .count(k => before.get(k) != after.get(k)))
          )
      }
    }
  }

  test("a tail does not ask for the bin before") {
    val log = new BinLog
    put(log, 0, "a", "1")
    log.settle()
    put(log, 0, "b", "2")
    assert(
      Changes
        .of(frame(isImage = false), Vector(log.tail().toBytes), fail("it was asked for"))
        .map(key) == Vector((0, "b"))
    )
  }
}
