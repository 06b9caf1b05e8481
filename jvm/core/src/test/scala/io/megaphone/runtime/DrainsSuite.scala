// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.errors.PlanRefusedException
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
    has(query.copy(exports = 1, isIdle = true, areElsewhere = true))
    get
    has = has.copy(obeyed = counter)
    assert(get.status == Drain.Draining && get.reason.exists(_.contains("1 exports")))
    has(query.copy(workers = 2, states = 2, isIdle = true, areElsewhere = true))
    get
    has = has.copy(obeyed = counter + 1)
    assert(get.status == Drain.Drained)
    has(query.copy(standbysLacking = 1))
    assert(get.status == Drain.Draining && get.reason.exists(_.contains("no standby")))
  }

  test(
    "one that is to be ended is cordoned if Spark alone runs workers there, and says so before"
  ) {
    val scene = new Scene
    import scene._
    def toCordon = drains.toCordon(_ => has)
    drains.start("e", None)
    has(query.copy(workers = 2, strayed = 2, states = 2))
    assert(toCordon.isEmpty && get.reason.exists(_.contains("2 of which are placed elsewhere")))
    drains.start("e", None, release = true)
    assert(toCordon == Vector("e") && get.status == Drain.Draining)
    for (
      left <- Seq[OfQuery => OfQuery](
        _.copy(strayed = 1),
        _.copy(standbysLacking = 1),
        _.copy(exports = 1)
      )
    ) {
      has(left(query.copy(workers = 2, strayed = 2, states = 2)))
      assert(toCordon.isEmpty)
    }
    has = has.copy(queries = Vector(query.copy(workers = 1, strayed = 1), query.copy(workers = 1)))
    assert(toCordon.isEmpty, "one of another query is to leave")
  }

  test("a drain that waits says which executors have no room") {
    val scene = new Scene
    import scene._
    drains.start("e", None)
    def room =
      get.reason.toVector.flatMap("Executor (.) has no room".r.findAllMatchIn(_)).map(_.group(1))
    has(query.copy(standbysLacking = 1))
    assert(room.isEmpty)
    has(query.copy(standbysLacking = 1, withoutRoom = Vector("c")))
    assert(room == Vector("c"))
    has(query.copy(workers = 2, withoutRoom = Vector("c", "d")))
    assert(room == Vector("c", "d"))
    has(query.copy(withoutRoom = Vector("c")))
    assert(room.isEmpty, "nothing waits for it")
  }

  test("a drain ends by a cancellation, a loss, or its deadline, and may begin again") {
    val scene = new Scene
    import scene._
    has(query.copy(workers = 1))
    def refusal = intercept[PlanRefusedException](drains.cancel("e")).condition
    assert(drains.get("e", _ => has).isEmpty && refusal == "UNKNOWN_DRAIN")
    drains.start("e", Some(5000))
    assert(drains.draining == Set("e") && drains.overdue.isEmpty)
    now = 5000
    assert(drains.draining.isEmpty && drains.overdue == Set("e"))
    assert(get.status == Drain.Overdue && get.seconds == 5)
    drains.start("e", Some(1000))
    assert(drains.draining == Set("e"), "a later deadline counts")
    drains.cancel("e")
    assert(get.status == Drain.Cancelled && drains.draining.isEmpty)
    assert(refusal == "UNKNOWN_DRAIN")
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

  test("an executor that Spark decommissions is emptied until it ends, and cannot be kept") {
    val scene = new Scene
    import scene._
    has(query.copy(workers = 1))
    drains.start("e", Some(9000))
    drains.decommissioned("e", Some(4000))
    drains.decommissioned("e", Some(1))
    assert(get.cause == Drain.Decommissioned && get.status == Drain.Draining)
    now = 4000
    assert(get.status == Drain.Overdue, "the earlier time counts, and only the first signal")
    assert(intercept[PlanRefusedException](drains.cancel("e")).condition == "DRAIN_TOO_LATE")
    drains.lost("e")
    assert(get.status == Drain.Lost)
    drains.decommissioned("f", None)
    assert(drains.open == Set("f"))
  }

  private final class Host extends Releases.Host {
    var did = Vector.empty[String]
    var need = Option.empty[String]
    var use = Option.empty[String]
    var fails = false
    var agrees = true
    private def does(what: String): Unit = if (fails) sys.error("no answer") else did :+= what
    override def needOf(executor: String): Option[String] = need
    override def cordon(executor: String): Unit = does(s"cordon $executor")
    override def useOf(executor: String): Option[String] = use
    override def end(executor: String): Boolean = { does(s"end $executor"); agrees }
  }

  private def tooLate(drains: Drains): Boolean =
    intercept[PlanRefusedException](drains.cancel("e")).condition == "DRAIN_TOO_LATE"

  test("an executor that is to be released is cordoned once it is empty, and then ended") {
    val scene = new Scene
    import scene._
    val host = new Host
    val releases = new Releases(drains, host)
    def tick(): Unit = releases.tick(_ => has)
    drains.start("other", None)
    drains.start("e", None)
    drains.start("e", None, release = true)
    drains.start("e", None)
    has(query.copy(workers = 1))
    tick()
    assert(host.did.isEmpty && get.release)
    has(query)
    get
    has = has.copy(obeyed = counter)
    host.need = Some("It is the last one.")
    tick()
    assert(host.did.isEmpty && get.status == Drain.Drained)
    assert(get.reason.contains("It is the last one."))
    host.need = None
    host.use = Some("A task runs there.")
    tick()
    assert(host.did == Vector("cordon e") && get.status == Drain.Cordoned && tooLate(drains))
    tick()
    assert(host.did == Vector("cordon e") && get.reason.contains("A task runs there."))
    host.use = None
    has(query.copy(exports = 1))
    tick()
    assert(host.did == Vector("cordon e") && get.reason.exists(_.contains("still take state")))
    has(query)
    tick()
    tick()
    assert(host.did == Vector("cordon e", "end e"), "it is asked for once")
    assert(drains.lost("e"))
    tick()
    assert(get.status == Drain.Released && get.reason.isEmpty && host.did.size == 2)
  }

  test("who lends what steps took is ended all the same once its time is up") {
    val scene = new Scene
    import scene._
    val host = new Host
    val releases = new Releases(drains, host)
    drains.start("e", Some(1000), release = true)
    has(query.copy(workers = 1, exports = 1))
    releases.tick(_ => has)
    assert(host.did.isEmpty)
    now = 1000
    for (_ <- 0 to 1) releases.tick(_ => has)
    assert(host.did == Vector("cordon e", "end e"))
  }

  test("an executor that the cluster manager may not end is to be ended by other means") {
    val scene = new Scene
    import scene._
    val host = new Host
    val releases = new Releases(drains, host)
    drains.start("e", None, release = true)
    get
    has = has.copy(obeyed = counter)
    releases.tick(_ => has)
    host.agrees = false
    for (_ <- 0 to 1) releases.tick(_ => has)
    assert(get.reason.exists(_.startsWith("Spark does not say that the cluster manager agrees")))
    assert(get.status == Drain.Cordoned && host.did == Vector("cordon e", "end e"))
  }

  test("what cannot be done is told and tried again, and holds no other executor up") {
    val scene = new Scene
    import scene._
    val host = new Host
    val releases = new Releases(drains, host)
    drains.start("e", None, release = true)
    drains.start("f", None, release = true)
    def both = drains.all(_ => has)
    both
    has = has.copy(obeyed = counter)
    host.fails = true
    releases.tick(_ => has)
    assert(both.map(_.status) == Vector(Drain.Drained, Drain.Drained))
    assert(both.forall(_.reason.exists(_.contains("no answer"))))
    host.fails = false
    releases.tick(_ => has)
    host.fails = true
    releases.tick(_ => has)
    assert(both.map(_.status) == Vector(Drain.Cordoned, Drain.Cordoned))
    assert(both.forall(_.reason.exists(_.contains("no answer"))))
    host.fails = false
    releases.tick(_ => has)
    assert(host.did == Vector("cordon e", "cordon f", "end e", "end f"))
  }

  test("an executor that is kept at the last moment is not cordoned") {
    val scene = new Scene
    import scene._
    val host = new Host
    drains.start("e", None, release = true)
    get
    has = has.copy(obeyed = counter)
    new Releases(drains, host).tick { _ =>
      val seen = has
      if (counter > 11) () else drains.cancel("e")
      seen
    }
    assert(host.did.isEmpty && get.status == Drain.Cancelled)
    assert(!drains.cordon("e"))
  }

  test("an executor whose time is up is released with what it has") {
    val scene = new Scene
    import scene._
    val host = new Host
    drains.start("e", Some(1000), release = true)
    has(query.copy(workers = 1))
    new Releases(drains, host).tick(_ => has)
    assert(host.did.isEmpty)
    now = 1000
    new Releases(drains, host).tick(_ => has)
    assert(host.did == Vector("cordon e") && get.status == Drain.Cordoned)
  }

  test("one that dies when it is empty, and was to be released, is") {
    val scene = new Scene
    import scene._
    drains.start("e", None, release = true)
    get
    has = has.copy(obeyed = counter)
    assert(get.status == Drain.Drained)
    assert(drains.lost("e") && get.status == Drain.Released)
  }
}
