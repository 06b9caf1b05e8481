// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.pace.Clock

/** When a query counts as idle. */
class IdlenessSuite extends AnyFunSuite {
  private final class Query {
    var (seconds, looks, isCommitted) = (100L, 0, true)
    private val clock = new Clock {
      override def nanoTime: Long = seconds * 1000000000L
      override def waitOn(monitor: Object, nanos: Long): Unit = fail("nobody waits")
    }
    val idleness = new Idleness({ looks += 1; isCommitted }, clock)

    def isIdle(at: Long): Boolean = { seconds = 100 + at; idleness.isIdle }
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
}
