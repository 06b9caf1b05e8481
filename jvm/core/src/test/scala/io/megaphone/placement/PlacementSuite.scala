// SPDX-License-Identifier: Apache-2.0
package io.megaphone.placement

import scala.annotation.tailrec
import scala.collection.immutable.ListMap
import scala.util.Random

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.placement.MemberState.{Active, Draining, Leaving}

class PlacementSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private implicit val config: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 300)

  private val states: Gen[MemberState] =
    Gen.frequency(4 -> Gen.const(Active), 1 -> Gen.const(Draining), 1 -> Gen.const(Leaving))

  private def membersOf(cores: Gen[Int], states: Gen[MemberState]): Gen[Vector[Member]] = for {
    n <- Gen.choose(1, 6)
    made <- Gen.sequence[Vector[Member], Member]((0 until n).map { i =>
      for (c <- cores; s <- states; h <- Gen.choose(0, 2)) yield Member(s"e$i", s"h$h", c, s)
    })
  } yield made

  private val loads =
    for (bytes <- Gen.choose(0, 1000); busy <- Gen.choose(0, 50)) yield Load(bytes.toLong, busy)

  private def requests(
      members: Gen[Vector[Member]] = membersOf(Gen.choose(1, 4), states),
      loads: Gen[Load] = loads,
      tolerance: Gen[Option[Double]] = Gen.oneOf(None, Some(0.1))
  ): Gen[Request] = for {
    live <- members
    groups <- Gen.choose(1, 2)
    workers <- Gen.choose(0, 12)
    seats = for (g <- 0 until groups; w <- 0 until workers) yield Seat(g.toLong, w)
    weights <- Gen.listOfN(seats.size, loads)
    ids = live.map(_.id) :+ "gone"
    now <- Gen.listOfN(seats.size, Gen.option(Gen.oneOf(ids)))
    bound <- Gen.listOfN(
      seats.size,
      Gen.frequency(4 -> Gen.const(None), 1 -> Gen.some(Gen.oneOf(ids)))
    )
    there <- Gen.listOfN(seats.size, Gen.someOf(ids))
    other <- Gen.mapOf(Gen.zip(Gen.oneOf(ids), loads))
    spread <- tolerance
  } yield Request(
    live,
    seats.zip(weights).toMap,
    seats.zip(now).collect { case (seat, Some(executor)) => seat -> executor }.toMap,
    seats.zip(bound).collect { case (seat, Some(executor)) => seat -> executor }.toMap,
    stateOn = seats.zip(there.map(_.toSeq)).toMap,
    elsewhere = other,
    tolerance = spread
  )

  private def stateOf(request: Request, executor: String) =
    request.members.find(_.id == executor).map(_.state)

  /** What of its part each executor that may get workers has, counted apart from the code. */
  private def fills(request: Request, targets: Map[Seat, String]): Map[String, Double] = {
    val open = Member.open(request.members)
    val ids = open.map(_.id).toSet
    val all = request.seats.values.toVector ++ request.elsewhere.collect {
      case (id, load) if ids(id) => load
    }
    def sum(of: Load => Double, some: Iterable[Load]) = some.map(of).sum
    val measures = Vector[(Load => Double, Double)](
      (_.bytes.toDouble, 1.0),
      (_.busyMs, 1.0),
      (_.workers.toDouble, 0.05)
    ).filter { case (of, _) => sum(of, all) > 0 }
    val shares = measures.map(_._2).sum
    open.map { member =>
      val here = targets.collect { case (seat, e) if e == member.id => request.seats(seat) } ++
        request.elsewhere.get(member.id)
      val weight = measures.map { case (of, share) =>
        share * sum(of, here) / sum(of, all)
      }.sum / shares
      val part = member.cores.toDouble / open.map(_.cores).sum
      member.id -> (if (measures.isEmpty) 0.0 else weight / part)
    }.toMap
  }

  test("every worker has a place where tasks run, if tasks run anywhere") {
    forAll(requests()) { request =>
      val wanted = Placement(request)
      assert(wanted.places.keySet == request.seats.keySet)
      assert(wanted.targets.keySet == request.seats.keySet)
      val isAnyLeft = request.members.exists(_.state != Leaving)
      for (executor <- wanted.places.values)
        assert(stateOf(request, executor).exists(_ != Leaving || !isAnyLeft))
      val isAnyActive = request.members.exists(_.state == Active)
      for (executor <- wanted.targets.values if isAnyActive)
        assert(stateOf(request, executor).contains(Active))
    }
    assert(Placement(Request(Vector.empty, Map(Seat(0, 0) -> Load()), Map.empty)).places.isEmpty)
  }

  test("a worker whose executor runs tasks stays; what is not to be spread gets no other target") {
    forAll(requests(tolerance = Gen.const(None))) { request =>
      val wanted = Placement(request)
      for ((seat, executor) <- request.now if stateOf(request, executor).exists(_ != Leaving)) {
        assert(wanted.places(seat) == executor)
        val isBound = request.bound.get(seat).exists(stateOf(request, _).contains(Active))
        if (isBound) assert(wanted.targets(seat) == request.bound(seat))
        else if (stateOf(request, executor).contains(Active))
          assert(wanted.targets(seat) == executor)
      }
    }
  }

  test("equal requests have equal answers, in whatever order their parts are listed") {
    forAll(requests()) { request =>
      val other = request.copy(
        members = request.members.reverse,
        seats = ListMap.from(request.seats.toVector.sortBy(_._1).reverse),
        now = ListMap.from(request.now.toVector.sortBy(_._1).reverse),
        elsewhere = ListMap.from(request.elsewhere.toVector.sortBy(_._1).reverse)
      )
      assert(Placement(other) == Placement(request))
    }
  }

  private val settled = requests(
    membersOf(Gen.choose(1, 4), Gen.const(Active)),
    tolerance = Gen.const(Some(0.1))
  ).map(_.copy(bound = Map.empty))

  test("what has been spread stays, and each exchange makes the fullest emptier") {
    forAll(settled) { request =>
      val placed = Placement(request.copy(tolerance = None))
      val spread = Placement(request.copy(now = placed.places))
      val again = Placement(request.copy(now = spread.targets))
      assert(again.targets == spread.targets)
      val (before, after) = (fills(request, placed.targets), fills(request, spread.targets))
      if (before.nonEmpty) assert(after.values.max <= before.values.max + 1e-6)
    }
  }

  test("after a spread, executors differ by one worker at most, or by less than the tolerance") {
    forAll(settled) { request =>
      val placed = Placement(request.copy(tolerance = None)).places
      val targets = Placement(request.copy(now = placed)).targets
      val filled = fills(request, targets)
      val mine = targets.values.toSet
      if (mine.nonEmpty) {
        val fullest = filled.filter { case (e, _) => mine(e) }.maxBy(_._2)
        val emptiest = filled.minBy(_._2)
        val least = targets
          .collect { case (seat, e) if e == fullest._1 => seat }
          .map { seat =>
            fills(request, Map(seat -> emptiest._1)).apply(emptiest._1) -
              fills(request, Map.empty).apply(emptiest._1)
          }
          .min
        val isWithin = filled.values.forall(f => f > 0.9 - 1e-6 && f < 1.1 + 1e-6)
        assert(isWithin || fullest._2 - emptiest._2 <= least + 1e-6)
      }
    }
  }

  test("a worker without a place goes where its state is, whatever is there") {
    forAll(requests()) { request =>
      val (open, places) = (Member.open(request.members).map(_.id), Placement(request).places)
      for {
        (seat, executor) <- places
        if !request.now.get(seat).exists { at =>
          open.contains(at) || stateOf(request, at).exists(_ != Leaving)
        }
        there = request.stateOn(seat).filter(open.contains) if there.nonEmpty
      } assert(there.contains(executor))
    }
  }

  private val alike = membersOf(Gen.const(1), Gen.const(Active))

  test("equal workers on equal executors differ by one in number, with the fewest relocations") {
    forAll(alike, Gen.choose(0, 12), Gen.choose(0, 5)) { (live, workers, shift) =>
      val seats = (0 until workers).map(w => Seat(0, w) -> Load(100)).toMap
      val now =
        seats.keys.map(s => s -> live(s.worker * s.worker % (shift + 1) % live.size).id).toMap
      val targets = Placement(Request(live, seats, now, tolerance = Some(0.01))).targets
      val counts = live.map(m => targets.values.count(_ == m.id))
      assert(counts.max - counts.min <= 1)
      val (least, most) = (workers / live.size, (workers + live.size - 1) / live.size)
      val before = live.map(m => now.values.count(_ == m.id))
      // Each executor gives what it has above its part, or gets what it lacks, and not both.
      val spare = before.map(n => math.max(0, n - most)).sum
      val lacked = before.map(n => math.max(0, least - n)).sum
      assert(targets.count { case (s, e) => now(s) != e } == math.max(spare, lacked))
    }
  }

  test("executors that are to be emptied are, and nothing else moves") {
    forAll(requests(tolerance = Gen.const(None)).map(_.copy(bound = Map.empty))) { request =>
      val wanted = Placement(request)
      val isAnyActive = request.members.exists(_.state == Active)
      for ((seat, executor) <- wanted.targets if executor != wanted.places(seat))
        assert(stateOf(request, wanted.places(seat)).contains(Draining))
      for ((seat, executor) <- wanted.places if isAnyActive)
        if (stateOf(request, executor).contains(Draining)) assert(wanted.targets(seat) != executor)
    }
  }

  test(
    "an executor that could not take a worker gets it only if no other may, the first one then"
  ) {
    val cases = for {
      request <- requests()
      unfit <- Gen.listOfN(request.seats.size, Gen.someOf(request.members.map(_.id)))
      refusedAt = unfit.map(_.map(id => id -> math.floorMod(id.hashCode, 3).toLong).toMap)
    } yield request.copy(unfit = request.seats.keys.zip(refusedAt).toMap)
    forAll(cases) { request =>
      val open = Member.open(request.members).map(_.id)
      val wanted = Placement(request)
      for {
        (seat, executor) <- wanted.targets
        refusedAt <- request.unfit(seat).get(executor)
        isThere = request.now.get(seat).contains(executor)
        isBound = request.bound.get(seat).contains(executor)
        if !isThere && !isBound && !request.stateOn(seat).contains(executor)
      } assert(open.forall(request.unfit(seat).get(_).exists(_ >= refusedAt)))
    }
  }

  test("equal workers go to a new executor alone") {
    forAll(alike, Gen.choose(1, 12)) { (live, workers) =>
      val seats = (0 until workers).map(w => Seat(0, w) -> Load(100)).toMap
      val before = Placement(Request(live, seats, Map.empty, tolerance = Some(0.01))).targets
      val more = live :+ Member("new", "h")
      val targets = Placement(Request(more, seats, before, tolerance = Some(0.01))).targets
      assert(targets.forall { case (s, e) => e == before(s) || e == "new" })
      assert(targets.values.count(_ == "new") == workers / more.size)
    }
  }

  test("where an executor is lost, its workers move alone") {
    forAll(alike.suchThat(_.size > 1), Gen.choose(1, 12)) { (live, workers) =>
      val seats = (0 until workers).map(w => Seat(0, w) -> Load(100)).toMap
      val before = Placement(Request(live, seats, Map.empty, tolerance = Some(0.01))).targets
      val after = Placement(Request(live.tail, seats, before, tolerance = Some(0.01))).targets
      assert(before.forall { case (s, e) => e == live.head.id || after(s) == e })
    }
  }

  test("where an executor comes, workers move only if that makes the load more even") {
    forAll(settled) { request =>
      val before = Placement(request.copy(now = Placement(request).targets)).targets
      val more = request.copy(members = request.members :+ Member("new", "h"), now = before)
      val targets = Placement(more).targets
      val moved = targets.filter { case (seat, executor) => before(seat) != executor }
      assert(moved.isEmpty || isEvener(fills(more, targets), fills(more, before)))
    }
  }

  test("where an executor is lost, its workers alone get another place at once") {
    forAll(settled.suchThat(_.members.size > 1), Gen.oneOf(None, Some(0.1))) { (request, spread) =>
      val before = Placement(request.copy(now = Placement(request).targets)).targets
      val left = request.copy(members = request.members.tail, now = before, tolerance = spread)
      val after = Placement(left)
      val staying = before.filter(_._2 != request.members.head.id)
      assert(staying.forall { case (seat, executor) => after.places(seat) == executor })
      if (spread.isEmpty) assert(after.targets == after.places)
    }
  }

  test("a worker without a place goes where its state is, the least full of these") {
    val seats = Map(Seat(0, 0) -> Load(100), Seat(0, 1) -> Load(200), Seat(0, 2) -> Load(1))
    val live = Vector("a", "b", "c").map(Member(_, "h"))
    val stateOn = Map(Seat(0, 0) -> Seq("b"), Seat(0, 1) -> Seq("b", "c"), Seat(0, 2) -> Seq("x"))
    val places = Placement(Request(live, seats, Map.empty, stateOn = stateOn)).places
    assert(places == Map(Seat(0, 0) -> "b", Seat(0, 1) -> "b", Seat(0, 2) -> "a"), "heaviest first")
    val others = Map("b" -> Load(300))
    val beside = Request(live, seats, Map.empty, stateOn = stateOn, elsewhere = others)
    assert(Placement(beside).places(Seat(0, 1)) == "c")
    val there = Request(live, seats.take(1), Map(Seat(0, 0) -> "c"), stateOn = stateOn)
    assert(Placement(there).places == Map(Seat(0, 0) -> "c"))
  }

  test("workers are placed by cores, and by what other queries have") {
    val live = Vector(Member("a", "h", 1), Member("b", "h", 2))
    val seats = (0 until 6).map(w => Seat(0, w) -> Load(100)).toMap
    val places = Placement(Request(live, seats, Map.empty)).places
    assert(places.values.count(_ == "b") == 4)
    val two = Vector(Member("a", "h"), Member("b", "h"))
    val beside = Request(two, seats, Map.empty, elsewhere = Map("a" -> Load(600, workers = 6)))
    assert(Placement(beside).places.values.forall(_ == "b"))
  }

  /** Whether executors that are this full are evener than they were: from the fullest on. */
  private def isEvener(now: Map[String, Double], before: Map[String, Double]) =
    now.values.toVector.sorted.reverse
      .zip(before.values.toVector.sorted.reverse)
      .find { case (n, b) => math.abs(n - b) > 1e-10 }
      .exists { case (n, b) => n < b }

  test("queries that answer in turn come to rest: each change evens out what all have") {
    forAll(settled, settled) { (one, other) =>
      def load(of: Request) =
        Load.byExecutor(of.now.toVector.map { case (seat, at) => at -> of.seats(seat) })
      def turn(mine: Request, others: Request) = {
        val now = mine.copy(members = one.members, elsewhere = load(others))
        val targets = Placement(now).targets
        val (before, after) = (fills(now, now.now), fills(now, targets))
        val isFirst = now.now.size < now.seats.size
        assert(isFirst || targets == now.now || isEvener(after, before))
        now.copy(now = targets)
      }
      @tailrec
      def untilRest(a: Request, b: Request, rounds: Int = 1): Unit = {
        assert(rounds <= 10)
        val nextA = turn(a, b)
        val nextB = turn(b, nextA)
        if (nextA.now != a.now || nextB.now != b.now) untilRest(nextA, nextB, rounds + 1)
      }
      untilRest(one.copy(now = Map.empty), other.copy(now = Map.empty))
    }
  }

  test("from any state, workers that arrive one by one come to rest in ten rounds, and stay") {
    forAll(requests(), requests(), Gen.long) { (one, other, seed) =>
      val dice = new Random(seed)

      /** A query's workers are placed, and some of those that were bound elsewhere arrive. */
      def round(query: Request, others: Request): Request = {
        val elsewhere = Load.byExecutor((others.now ++ others.bound).toVector.map {
          case (seat, executor) => executor -> others.seats(seat)
        })
        val wanted = Placement(query.copy(members = one.members, elsewhere = elsewhere))
        val away = wanted.targets.filter { case (seat, to) => wanted.places(seat) != to }
        val (come, bound) = away.partition(_ => dice.nextInt(4) > 0)
        query.copy(now = wanted.places ++ come, bound = bound)
      }
      @tailrec
      def rests(a: Request, b: Request, rounds: Int = 0): (Request, Request) = {
        val nextA = round(a, b)
        val nextB = round(b, nextA)
        val isAtRest = nextA.now == a.now && nextB.now == b.now &&
          Seq(a, nextA, b, nextB).forall(_.bound.isEmpty)
        if (isAtRest) (a, b)
        else { assert(rounds < 10); rests(nextA, nextB, rounds + 1) }
      }
      val (a, b) = rests(one, other)
      for ((query, others) <- Seq(a -> b, b -> a); _ <- 1 to 3) {
        val next = round(query, others)
        assert(next.now == query.now && next.bound.isEmpty, "nothing is asked for any more")
      }
    }
  }
}
