// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.pace.Clock
import io.megaphone.runtime.Drain.{OfExecutor, OfQuery}

class DrainsSuite extends AnyFunSuite {
  private final class Scene {
    var now = 0L // milliseconds
    var counter = 10L
    var has = OfExecutor(Vector.empty, 0, 0, obeyed = 10)
    val drains = new Drains(
      () => { counter += 1; counter },
      new Clock {
        override def nanoTime: Long = now * 1000000L
        override def waitOn(monitor: Object, nanos: Long): Unit = ()
      }
    )
    def get: Drain = drains.get("e", _ => has).get
    def has(query: OfQuery): Unit = has = has.copy(queries = Vector(query))
  }

  private val query = OfQuery("q", 0, isIdle = false, areElsewhere = false, 0, 0)

  test("an executor is drained once it has heard that it is empty, and says so") {
    val scene = new Scene
    import scene._
    drains.start("e", None)
    has(query.copy(workers = 2, states = 2))
    assert(get.status == Drain.Draining && get.workers == 2 && get.reason.exists(_.contains("2 w")))
    has(query.copy(states = 2))
    has = has.copy(obeyed = counter)
    assert(get.reason.contains("It has not reported since."), "it was before it was empty")
    has = has.copy(obeyed = counter)
    assert(get.status == Drain.Draining && get.reason.exists(_.contains("2 workers")))
    has(query)
    for (left <- Seq(has.copy(replicas = 1), has.copy(blocks = 1))) {
      has = left
      assert(get.status == Drain.Draining)
    }
    has = has.copy(replicas = 0, blocks = 0)
    assert(get.status == Drain.Drained && get.reason.isEmpty)
  }

  test("a task that brings state back makes an old report worthless") {
    val scene = new Scene
    import scene._
    drains.start("e", None)
    get
    has = has.copy(obeyed = counter)
    assert(get.status == Drain.Drained)
    has(query.copy(workers = 1))
    assert(get.status == Drain.Draining)
    has(query)
    assert(get.status == Drain.Draining, "the report is older than that")
    has = has.copy(obeyed = counter)
    assert(get.status == Drain.Drained)
  }

  test("of an idle query it is enough that its state is elsewhere; standbys must be replaced") {
    val scene = new Scene
    import scene._
    drains.start("e", None)
    has(query.copy(workers = 2, states = 2, isIdle = true))
    get
    has = has.copy(obeyed = counter + 1)
    assert(get.status == Drain.Draining && get.reason.exists(_.contains("plans no batches")))
    has(query.copy(workers = 2, states = 2, isIdle = true, areElsewhere = true))
    get
    has = has.copy(obeyed = counter + 1)
    assert(get.status == Drain.Drained)
    has(query.copy(standbysLacking = 1))
    assert(get.status == Drain.Draining && get.reason.exists(_.contains("no standby")))
  }

  test("a drain ends by a cancellation, a loss, or its deadline, and may begin again") {
    val scene = new Scene
    import scene._
    has(query.copy(workers = 1))
    assert(drains.get("e", _ => has).isEmpty && !drains.cancel("e"))
    drains.start("e", Some(5000))
    assert(drains.draining == Set("e") && drains.overdue.isEmpty)
    now = 5000
    assert(drains.draining.isEmpty && drains.overdue == Set("e"))
    assert(get.status == Drain.Overdue && get.seconds == 5)
    drains.start("e", Some(1000))
    assert(drains.draining == Set("e"), "a later deadline counts")
    assert(drains.cancel("e") && get.status == Drain.Cancelled && drains.draining.isEmpty)
    assert(!drains.cancel("e"))
    drains.start("e", None)
    assert(drains.draining == Set("e") && get.seconds == 0)
    drains.lost("e")
    assert(get.status == Drain.Lost && drains.all(_ => has).map(_.executor) == Vector("e"))
    drains.start("e", None)
    has(query)
    get
    has = has.copy(obeyed = counter)
    assert(get.status == Drain.Drained)
    drains.lost("e")
    assert(get.status == Drain.Drained, "it was empty when it went")
  }
}
