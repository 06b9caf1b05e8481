// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

/** Work of which one thread at a time does a key's. */
final class KeyedWorkSuite extends AnyFunSuite {
  private val failures = mutable.Buffer.empty[String]
  private val queued = mutable.Queue.empty[Runnable]
  private var hasThreads = true
  private val work = new KeyedWork[String](
    task => if (hasThreads) queued += task else throw new OutOfMemoryError("no thread"),
    e => failures += e.getMessage
  )
  private var done = 0
  private def runAll(): Unit = while (queued.nonEmpty) queued.dequeue().run()

  override def withFixture(test: NoArgTest) = {
    failures.clear()
    done = 0
    super.withFixture(test)
  }

  test("A key is at work once at a time, whatever its work throws.") {
    for (_ <- 1 to 2; key <- Seq("a", "b")) work(key) { done += 1; throw new OutOfMemoryError(key) }
    assert(queued.size == 2)
    runAll()
    work("a")(done += 1)
    runAll()
    assert(done == 3 && failures == Seq("a", "b"))
  }

  test("A key for which there is no thread comes again when there is one.") {
    hasThreads = false
    work("a")(done += 1)
    hasThreads = true
    assert(failures == Seq("no thread"))
    work("a")(done += 1)
    runAll()
    assert(done == 1)
  }

  test("What has come after the last look is done, too, and needs a thread for that.") {
    var left = 3
    def begin(): Unit = work("a", left > 0) { done += 1; left -= 1 }
    begin()
    runAll()
    assert(done == 3)
    left = 2
    begin()
    val first = queued.dequeue()
    hasThreads = false
    first.run()
    hasThreads = true
    assert(done == 4 && failures == Seq("no thread"))
    begin()
    runAll()
    assert(done == 5)
  }
}
