// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.file.Path
import java.util.concurrent.{
  CountDownLatch, Executor, Executors, ExecutorService, LinkedBlockingQueue, TimeUnit
}
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.SparkEnv
import org.apache.spark.network.TransportContext
import org.apache.spark.network.client.{RpcResponseCallback, TransportClientBootstrap}
import org.apache.spark.network.crypto.AuthClientBootstrap
import org.apache.spark.network.netty.SparkTransportConf
import org.apache.spark.network.server.NoOpRpcHandler
import org.apache.spark.storage.TestBlockId
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.time.SpanSugar._

import io.megaphone.errors.DamagedFileException
import io.megaphone.format.{ExecutorAddress, FileName, StateName, StoreId}
import io.megaphone.plan.StepId
import io.megaphone.runtime.FaultPoints
import io.megaphone.spark.executor.{BlockPeers, PeerThreads, PeerTransport, UnsentBytes}
import io.megaphone.spark.query.PluginSession
import io.megaphone.spark.wire.PeerBytes
import io.megaphone.state.ReplicaKey
import io.megaphone.testkit.BitFlips
import io.megaphone.transfer.{Answer, BlockKind, BlockName, Heard, PushedFile, Question}

/** Blocks in Spark's block manager, and between executors: two transports of one process. */
class BlockPeersSuite extends PluginSession {
  protected val Unsent: UnsentBytes.Max =
    UnsentBytes.Max(bytes = 16 << 20, waitMs = 60000, waiting = 1)

  private def block(source: Int) = BlockName(
    StoreId(0, "default").in("run"),
    source,
    9,
    StateName(1, ""),
    BlockKind.Tail,
    StepId("plan", 0, 0)
  )

  private val question = {
    val key = ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 9, StepId("plan", 0, 0))
    Question.Rest(key, StateName(1, ""), Map(0 -> 1L), 0, Int.MinValue, Array.empty)
  }

  /** An executor of which others ask blocks, and one that asks; neither has a driver. */
  private final class Two {
    private val made = mutable.Buffer.empty[AutoCloseable]
    val threads: ExecutorService = Executors.newCachedThreadPool()
    val waiting = new PeerThreads(8)
    private val answerers = Executors.newFixedThreadPool(2)
    private val goOn = new CountDownLatch(1)
    val hanging = new AtomicInteger // requests that wait for `release`
    val store = new BlockStore(SparkEnv.get)
    val asked = new AtomicInteger // requests that the other executor has answered
    val come = new LinkedBlockingQueue[PushedFile] // files that the source got
    val source: BlockPeers = peers(answerers) { request =>
      asked.incrementAndGet();
      PeerBytes.answer(request)(store.get, file => { come.put(file); () }, _ => Answer.Gone)
    }
    val target: BlockPeers = peers(answerers)(_ => fail("nobody asks the target"))

    /** What `impatient` is to send; `sendNext` does so. */
    val sends = new LinkedBlockingQueue[Runnable]
    def sendNext(): Unit =
      Option(sends.poll(60, TimeUnit.SECONDS)).getOrElse(fail("nothing is sent")).run()

    /** It does not wait for long until a file is taken. */
    val impatient: BlockPeers =
      peers(answerers, pushWaitMs = 200, sends.put(_))(_ => fail("nobody asks it"))

    /** It waits longer than a test takes. */
    val patient: BlockPeers = peers(answerers, pushWaitMs = 600000)(_ => fail("nobody asks it"))

    private def peers(
        by: ExecutorService,
        pushWaitMs: Long = BlockPeers.PushWaitMs,
        pushers: Executor = threads
    )(answer: Array[Byte] => Array[Byte]): BlockPeers = {
      val transport = new PeerTransport(SparkEnv.get, 0, by, Unsent, answer)
      made += transport
      new BlockPeers(
        store,
        transport,
        waiting,
        threads,
        pushers,
        FaultPoints.Off,
        pushWaitMs = pushWaitMs
      )
    }

    /** Of an executor that nobody asks. */
    def transport: PeerTransport = {
      val own = new PeerTransport(SparkEnv.get, 0, answerers, Unsent, _ => fail("nobody asks it"))
      made += own
      own
    }

    /** An executor that does not answer before `release`. */
    def hung(): BlockPeers = peers(threads) { request =>
      hanging.incrementAndGet(); goOn.await(); request.take(1)
    }

    /** An executor that answers questions, and not before `release`. */
    def late(): BlockPeers = peers(threads) { request =>
      hanging.incrementAndGet(); goOn.await()
      PeerBytes.answer(request)(_ => None, _ => (), _ => Answer.NotYet)
    }

    def release(): Unit = goOn.countDown()

    def close(): Unit = {
      release()
      source.keep(_ => false)
      made.foreach(_.close())
      waiting.close()
      threads.shutdown()
      answerers.shutdown()
    }
  }

  private def withTwo(body: Two => Unit): Unit = {
    val two = new Two
    try body(two)
    finally two.close()
  }

  /** An executor that asks, and takes no byte of an answer until it is told to. */
  private final class SlowAsker(of: ExecutorAddress) extends AutoCloseable {
    private val env = SparkEnv.get
    private val ssl = env.securityManager.getRpcSSLOptions()
    private val conf =
      SparkTransportConf.fromSparkConf(env.conf, "shuffle", 1, sslOptions = Some(ssl))
    private val context = new TransportContext(conf, new NoOpRpcHandler)
    private val bootstraps =
      if (!env.securityManager.isAuthenticationEnabled()) Seq.empty[TransportClientBootstrap]
      else Seq(new AuthClientBootstrap(conf, env.conf.getAppId, env.securityManager))
    private val clients = context.createClientFactory(bootstraps.asJava)
    private val client = clients.createClient(of.host, of.port)
    client.getChannel.config.setAutoRead(false)

    def ask(name: String): Unit = {
      client.sendRpc(
        ByteBuffer.wrap(PeerBytes.ask(Seq(name))),
        new RpcResponseCallback {
          override def onSuccess(bytes: ByteBuffer): Unit = ()
          override def onFailure(e: Throwable): Unit = ()
        }
      )
      ()
    }

    def takeBytes(): Unit = { client.getChannel.config.setAutoRead(true); () }

    override def close(): Unit = { clients.close(); context.close() }
  }

  private def file(version: Int, bytes: Int) = PushedFile(
    StoreId(0, "default").in("run"),
    FileName(3, StateName(version.toLong, "id")),
    Array.fill(bytes)(version.toByte)
  )

  private def comes(two: Two): PushedFile =
    Option(two.come.poll(60, TimeUnit.SECONDS)).getOrElse(fail("no file has come"))

  test("Files come as they were sent, one after the other.") {
    withTwo { two =>
      for (version <- 1 to 5) two.target.push(file(version, 1000 * version), two.source.address)
      for (version <- 1 to 5) {
        val sent = file(version, 1000 * version)
        val come = comes(two)
        assert(come.store == sent.store && come.file == sent.file)
        assert(come.bytes.toSeq == sent.bytes.toSeq)
      }
    }
  }

  test("An executor that is gone, or takes no files, costs others nothing.") {
    withTwo { two =>
      val (hung, gone) = (two.hung(), two.transport)
      val goneAddress = gone.address
      gone.close()
      for (version <- 1 to 40) {
        two.patient.push(file(version, 4 << 20), hung.address) // more than may wait for it
        two.patient.push(file(version, 10), goneAddress)
      }
      two.patient.push(file(99, 10), two.source.address)
      assert(comes(two).file.name.version == 99)
      two.release()
      // What it had no room for is not sent to it later.
      eventually(timeout(60.seconds))(assert(two.hanging.get > 1))
      two.patient.push(file(98, 10), two.source.address)
      assert(comes(two).file.name.version == 98)
      assert(two.hanging.get < 40)
    }
  }

  test("Files that wait for an executor which does not answer are dropped at its first time-out.") {
    withTwo { two =>
      val hung = two.hung()
      for (version <- 1 to 5) two.impatient.push(file(version, 10), hung.address)
      two.sendNext()
      assert(two.impatient.waitingBytes == 0 && two.sends.isEmpty)
      eventually(timeout(60.seconds))(assert(two.hanging.get == 1))
      two.impatient.push(file(6, 10), hung.address)
      two.sendNext()
      eventually(timeout(60.seconds))(assert(two.hanging.get == 2))
    }
  }

  test("A file that was damaged on its way is refused.") {
    val bytes = PeerBytes.push(file(1, 100))
    // Its name, too. The first byte says that it is a file.
    for ((damaged, bit) <- BitFlips.of(bytes, 1 until bytes.length).zipWithIndex)
      intercept[DamagedFileException](
        PeerBytes.answer(damaged)(
          _ => None,
          _ => fail(s"it is taken, with bit $bit behind the first byte changed"),
          _ => Answer.Gone
        )
      )
    for (length <- 0 until bytes.length)
      intercept[DamagedFileException](
        PeerBytes.answer(bytes.take(length))(
          _ => None,
          _ => fail(s"$length bytes are taken"),
          _ => Answer.Gone
        )
      )
  }

  test("A block that cannot be removed costs nothing but its bytes.") {
    withTwo { two =>
      object NothingStored extends FaultPoints {
        override def at(point: String): Unit = ()
        override def handedOut(point: String, bytes: Array[Byte]): Option[Array[Byte]] = None
      }
      val none = new BlockStore(null) // fails whatever it is asked for
      val inline: Executor = work => work.run()
      val peers = new BlockPeers(none, two.transport, two.waiting, inline, inline, NothingStored)
      peers.publish(block(0), Array[Byte](1))
      assert(peers.publishedCount == 1)
      peers.remove(Seq(block(0)))
      assert(peers.publishedCount == 0)
    }
  }

  test("Answers that a slow executor does not take are bounded, and small ones go on.") {
    withTwo { two =>
      val (large, small) = (block(0), block(1))
      two.source.publish(large, new Array[Byte](4 << 20))
      two.source.publish(small, Array[Byte](7))
      def pulled(block: BlockName) = two.target.pull(block, two.source.address, 60000)
      val slow = new SlowAsker(two.source.address)
      try {
        (1 to 20).foreach(_ => slow.ask(large.toString))
        eventually(timeout(60.seconds))(assert(pulled(large).isEmpty))
        assert(pulled(small).map(_.toSeq).contains(Seq[Byte](7)))
        slow.takeBytes()
        eventually(timeout(60.seconds))(assert(pulled(large).isDefined))
      } finally slow.close()
    }
  }

  test("A block for whose removal there is no heap ends no thread.") {
    withTwo { two =>
      val removals = mutable.Buffer.empty[Runnable]
      val store = new BlockStore(SparkEnv.get) {
        override def remove(name: String): Unit =
          if (name == block(1).toString) throw new OutOfMemoryError("a test")
          else super.remove(name)
      }
      val peers = new BlockPeers(
        store,
        two.transport,
        two.waiting,
        removals += _,
        two.threads,
        FaultPoints.Off
      )
      for (source <- 1 to 2) peers.publish(block(source), Array(source.toByte))
      peers.keep(_ => false)
      removals.foreach(_.run())
      assert(store.get(block(1).toString).isDefined && store.get(block(2).toString).isEmpty)
      two.store.remove(block(1).toString)
    }
  }

  /** What comes, by source. */
  private def pulled(
      by: BlockPeers,
      wanted: Seq[(BlockName, ExecutorAddress)],
      deadlineMs: Long = 60000
  ): Map[Int, Seq[Byte]] = {
    val come = mutable.Map.empty[Int, Seq[Byte]]
    by.pullAll(wanted, deadlineMs)((block, bytes) => come(block.source) = bytes.toSeq)
    come.toMap
  }

  test("The blocks of an executor come by one request, and one that is missing holds up none.") {
    withTwo { two =>
      for (source <- Seq(0, 1, 3)) two.source.publish(block(source), Array(source.toByte))
      val wanted = (0 until 4).map(source => block(source) -> two.source.address)
      val expected = Seq(0, 1, 3).map(source => source -> Seq(source.toByte)).toMap
      assert(pulled(two.target, wanted) == expected)
      assert(two.asked.get == 1)
      assert(two.target.pull(block(2), two.source.address, 60000).isEmpty)
    }
  }

  test("Large blocks come by several requests.") {
    withTwo { two =>
      for (source <- 0 until 4)
        two.source.publish(block(source), Array.fill(5 << 20)(source.toByte))
      val wanted = (0 until 4).map(source => block(source) -> two.source.address)
      val come = pulled(two.target, wanted)
      assert(come.size == 4 && come.forall { case (source, bytes) =>
        bytes.length == (5 << 20) && bytes.forall(_ == source)
      })
      assert(two.asked.get == 2)
    }
  }

  test(
    "What an executor has sent is used before it is asked for more, and hangs of others aside."
  ) {
    withTwo { two =>
      for (source <- 0 until 4) two.source.publish(block(source), new Array[Byte](5 << 20))
      val hung = two.hung()
      val wanted = (0 until 4).map(source => block(source) -> two.source.address) :+
        (block(9) -> hung.address)
      val answersSeen = mutable.Buffer.empty[Int]
      two.target.pullAll(wanted, 60000) { (_, _) =>
        answersSeen += two.asked.get
        if (answersSeen.size == 4) two.release()
      }
      assert(answersSeen.toSeq == Seq(1, 1, 2, 2))
    }
  }

  test("The time in which a block is used is not waited, and its error ends the pull.") {
    withTwo { two =>
      for (source <- 0 until 4) two.source.publish(block(source), new Array[Byte](5 << 20))
      val wanted = (0 until 4).map(source => block(source) -> two.source.address)
      two.target.pull(block(0), two.source.address, 60000) // connects, which may take long
      val end = System.nanoTime + 6200000000L
      val come = mutable.Buffer.empty[Int]
      two.target.pullAll(wanted, 6000) { (block, _) =>
        while (System.nanoTime < end) Thread.onSpinWait()
        come += block.source
      }
      assert(come.toSeq == Seq(0, 1, 2, 3))
      val error = new IllegalStateException("used up")
      assert(
        intercept[Throwable](two.target.pullAll(wanted, 60000)((_, _) => throw error)) eq error
      )
    }
  }

  test("Executors that hang, or are not there, cost one deadline and no other's blocks.") {
    withTwo { two =>
      val hung = two.hung().address
      assert(pulled(two.target, Seq(block(1) -> hung), deadlineMs = 200).isEmpty)
    }
    withTwo { two =>
      two.source.publish(block(0), Array[Byte](7))
      val others = Vector.fill(8)(two.hung().address) :+ ExecutorAddress("gone", "localhost", 1)
      val wanted = (two.source.address +: others).zipWithIndex.map { case (address, source) =>
        block(source) -> address
      }
      val come = new LinkedBlockingQueue[(Int, Seq[Byte])]
      val pulls: Runnable =
        () => two.target.pullAll(wanted, 120000)((b, bytes) => come.put(b.source -> bytes.toSeq))
      val pull = two.threads.submit(pulls)
      // One after the other, the second would be asked after two minutes.
      eventually(timeout(60.seconds))(assert(two.hanging.get == 8))
      assert(come.poll(60, TimeUnit.SECONDS) == (0 -> Seq[Byte](7)), "others still hang")
      two.release()
      pull.get(60, TimeUnit.SECONDS)
      assert(come.isEmpty)
    }
  }

  test("Several executors are asked at once.") {
    withTwo { two =>
      val asked = Seq.fill(2)(two.late()).map(p => two.target.asking(question, p.address, 60000))
      eventually(timeout(60.seconds))(assert(two.hanging.get == 2))
      two.release()
      assert(asked.map(_().answer) == Seq(Answer.NotYet, Answer.NotYet))
    }
  }

  test("A pull has begun before anybody waits for it.") {
    withTwo { two =>
      two.source.publish(block(0), Array[Byte](7))
      val come = two.target.pulling(block(0), two.source.address, 60000)
      val gone = two.target.pulling(block(1), two.source.address, 60000)
      eventually(timeout(60.seconds))(assert(two.asked.get == 2))
      assert(come.await().map(_.toSeq).contains(Seq[Byte](7)) && gone.await().isEmpty)
    }
  }

  test("A pull that is not wanted any more keeps no thread.") {
    withTwo { two =>
      val hung = two.hung()
      val unwanted = Seq.fill(8)(two.target.pulling(block(0), hung.address, 60000))
      eventually(timeout(60.seconds))(assert(two.hanging.get == 8))
      unwanted.foreach(_.cancel())
      two.target.pulling(block(0), hung.address, 60000)
      eventually(timeout(30.seconds))(assert(two.hanging.get == 9))
    }
  }

  test("An executor that cannot answer its own question is told nothing, as others are.") {
    withTwo { two =>
      val own = two.transport
      val peers = new BlockPeers(
        two.store,
        own,
        two.waiting,
        two.threads,
        two.threads,
        FaultPoints.Off,
        answering = _ => throw new IOException("a page cannot be read")
      )
      assert(peers.ask(question, own.address, 60000) == Heard.Nothing)
    }
  }

  test("An answer is late if its time is over, not if the executor is gone or answers nonsense.") {
    withTwo { two =>
      def isLate(at: ExecutorAddress, deadlineMs: Long): Boolean = {
        val heard = two.target.ask(question, at, deadlineMs)
        assert(heard.answer == Answer.Gone)
        heard.isLate
      }
      val (hung, gone) = (two.hung(), two.transport)
      val goneAddress = gone.address
      gone.close()
      assert(!isLate(goneAddress, 60000))
      assert(isLate(hung.address, 200))
      two.release()
      assert(!isLate(hung.address, 60000))
    }
  }

  test("Questions to an executor that is frozen, however many, hold up none to another one.") {
    withTwo { two =>
      val frozen = two.hung()
      two.source.publish(block(0), Array[Byte](7))
      two.target.pull(block(0), two.source.address, 60000) // connects, which may take long
      for (_ <- 1 to 100)
        two.threads.execute { () => two.target.ask(question, frozen.address, 60000); () }
      eventually(timeout(60.seconds))(assert(two.hanging.get == 8))
      assert(two.target.ask(question, two.source.address, 60000).bytes > 0)
      assert(two.target.pull(block(0), two.source.address, 60000).isDefined)
      assert(two.hanging.get == 8, "the others wait in turn")
    }
  }

  test("A pull that waits can be interrupted.") {
    withTwo { two =>
      val hung = two.hung()
      var ended = Option.empty[Throwable]
      val waiting = new Thread(() =>
        try { two.target.pull(block(0), hung.address, 60000); () }
        catch { case e: InterruptedException => ended = Some(e) }
      )
      waiting.start()
      eventually(timeout(60.seconds))(assert(waiting.getState == Thread.State.TIMED_WAITING))
      waiting.interrupt()
      waiting.join(30000)
      assert(ended.isDefined)
    }
  }

  test("An executor that has no port is known to have none, and asks others all the same.") {
    withTwo { two =>
      val threads = Executors.newCachedThreadPool()
      val transport = new PeerTransport(SparkEnv.get, 1, threads, Unsent, identity) // no service's
      try {
        assert(!transport.address.isKnown && two.source.address.isKnown)
        two.source.publish(block(0), Array[Byte](5))
        val peers =
          new BlockPeers(two.store, transport, two.waiting, threads, threads, FaultPoints.Off)
        val come = peers.pull(block(0), two.source.address, 60000)
        assert(come.map(_.toSeq).contains(Seq[Byte](5)))
      } finally { transport.close(); threads.shutdown() }
    }
  }

  test("What this executor has itself is taken without a request.") {
    withTwo { two =>
      two.source.publish(block(0), Array[Byte](5))
      val come = two.source.pull(block(0), two.source.address, 60000)
      assert(come.map(_.toSeq).contains(Seq[Byte](5)))
      assert(two.asked.get == 0)
    }
  }

  test("Large blocks are on disk alone, also in small parts, and arrive whole.") {
    val most = Array.fill(BlockStore.MemoryBytesMax)(7.toByte)
    val large = most :+ 8.toByte
    withTwo { two =>
      for ((part, bytes, isOnDisk) <- Seq((0, most, false), (0, large, true), (1, most, true))) {
        val published = block(source = bytes.length).copy(part = part)
        two.source.publish(published, bytes)
        val status = SparkEnv.get.blockManager.getStatus(TestBlockId(published.toString)).get
        assert((status.memSize > 0, status.diskSize > 0) == (!isOnDisk, isOnDisk))
        val come = two.target.pull(published, two.source.address, 60000)
        assert(come.get.sameElements(bytes))
      }
    }
  }

  test("Obeying orders does not wait for a reader of an old block that hangs.") {
    withTwo { two =>
      val manager = SparkEnv.get.blockManager
      val id = TestBlockId(block(0).toString)
      val threads = Executors.newCachedThreadPool()
      two.source.publish(block(0), Array[Byte](1, 2, 3))
      val (reads, goOn) = (new CountDownLatch(1), new CountDownLatch(1))
      try {
        threads.execute { () =>
          val data = manager.getLocalBytes(id)
          reads.countDown()
          goOn.await()
          manager.releaseLock(id)
          data.foreach(_.dispose())
        }
        reads.await()
        threads.submit((() => two.source.keep(_ => false)): Runnable).get(60, TimeUnit.SECONDS)
        assert(two.source.publishedCount == 0 && manager.getStatus(id).isDefined)
        goOn.countDown()
        eventually(timeout(60.seconds))(assert(manager.getStatus(id).isEmpty))
      } finally { goOn.countDown(); threads.shutdown() }
    }
  }
}

/** The same between executors that have a secret, and encrypt what they send. */
final class SecuredBlockPeersSuite extends BlockPeersSuite {
  override protected def settings: Map[String, String] = super.settings ++ Map(
    "spark.authenticate" -> "true",
    "spark.authenticate.secret" -> "of this suite",
    "spark.network.crypto.enabled" -> "true"
  )

  test("Who does not know the secret is not answered.") {
    val other = SparkEnv.get.conf.clone.set("spark.authenticate", "false")
    val asker = new TransportContext(
      SparkTransportConf.fromSparkConf(other, "shuffle", 1),
      new NoOpRpcHandler
    )
    val asked = new PeerTransport(SparkEnv.get, 0, _.run(), Unsent, request => request)
    try {
      val clients = asker.createClientFactory()
      val client = clients.createClient(asked.address.host, asked.address.port)
      assertThrows[RuntimeException](client.sendRpcSync(ByteBuffer.allocate(1), 60000))
      clients.close()
    } finally { asked.close(); asker.close() }
  }
}

/** The same between executors that encrypt all of their transport. */
final class TlsBlockPeersSuite extends BlockPeersSuite {
  private lazy val store = {
    val file = folder("tls").resolve("keys.p12").toString
    val keytool = Path.of(System.getProperty("java.home"), "bin", "keytool").toString
    val make = Seq(
      keytool,
      "-genkeypair",
      "-storetype",
      "PKCS12",
      "-keystore",
      file,
      "-storepass",
      Password,
      "-alias",
      "executor",
      "-dname",
      "CN=executor",
      "-keyalg",
      "RSA"
    )
    assert(new ProcessBuilder(make.asJava).inheritIO().start().waitFor() == 0)
    file
  }
  private lazy val Password = "of this suite"

  override protected def settings: Map[String, String] = super.settings ++ Map(
    "enabled" -> "true",
    "protocol" -> "TLSv1.2",
    "keyPassword" -> Password,
    "keyStore" -> store,
    "keyStorePassword" -> Password,
    "keyStoreType" -> "PKCS12",
    "trustStore" -> store,
    "trustStorePassword" -> Password,
    "trustStoreType" -> "PKCS12"
  ).map { case (key, value) => s"spark.ssl.rpc.$key" -> value }
}
