// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.pace.Clock

/** When a query counts as idle. */
class IdlenessSuite extends AnyFunSuite {
  private final class Query {
    var (seconds, looks, isCommitted, hangs) = (100L, 0, true, false)
    private val queued = mutable.Queue.empty[() => Unit]
    private val clock = new Clock {
      override def nanoTime: Long = seconds * 1000000000L
      override def waitOn(monitor: Object, nanos: Long): Unit = fail("nobody waits")
    }
    val idleness =
      new Idleness({ looks += 1; isCommitted }, work => { queued += (() => work); true }, clock)

    /** Asks twice: the second answer is what the look that the first began has told. */
    def isIdle(at: Long): Boolean = {
      seconds = 100 + at
      idleness.isIdle
      if (!hangs) runAll()
      idleness.isIdle
    }

    def runAll(): Unit = while (queued.nonEmpty) queued.dequeue()()
  }

  test("A query is idle half a minute after its last batch was planned, until the next one is.") {
    val query = new Query
    assert(!query.isIdle(at = 30) && query.isIdle(at = 31) && query.isIdle(at = 99))
    assert(query.looks == 1, "a query that is idle stays so")
    query.idleness.planned()
    assert(!query.isIdle(at = 100) && !query.isIdle(at = 129) && query.isIdle(at = 131))
  }

  test("A batch that runs for long is looked for once a second, and no query of it is idle.") {
    val query = new Query
    query.isCommitted = false
    assert(!query.isIdle(at = 40) && !query.isIdle(at = 40) && query.looks == 1)
    query.isCommitted = true
    assert(!query.isIdle(at = 40) && query.isIdle(at = 41) && query.looks == 2)
  }

  test("A look that hangs is waited for by nobody, and no other begins meanwhile.") {
    val query = new Query
    query.hangs = true
    assert((31 to 60).forall(at => !query.isIdle(at.toLong)) && query.looks == 0)
    query.runAll()
    assert(query.isIdle(at = 60) && query.looks == 1)
  }

  test("What a look tells of a batch before the newest one counts no more.") {
    val query = new Query
    query.hangs = true
    query.isIdle(at = 31)
    query.idleness.planned()
    query.runAll()
    assert(!query.isIdle(at = 32) && !query.isIdle(at = 62))
    query.hangs = false
    assert(query.isIdle(at = 63) && query.looks == 2)
  }
}
