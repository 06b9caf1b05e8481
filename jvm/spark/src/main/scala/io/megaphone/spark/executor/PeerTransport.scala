// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.nio.ByteBuffer
import java.util.Collections
import java.util.concurrent.{CompletableFuture, ExecutionException, Executor, TimeUnit}

import scala.util.{Failure, Success, Try}
import scala.util.control.NonFatal

import org.apache.spark.SparkEnv
import org.apache.spark.internal.Logging
import org.apache.spark.network.TransportContext
import org.apache.spark.network.client.{
  RpcResponseCallback, TransportClient, TransportClientBootstrap
}
import org.apache.spark.network.crypto.{AuthClientBootstrap, AuthServerBootstrap}
import org.apache.spark.network.netty.SparkTransportConf
import org.apache.spark.network.server.{
  OneForOneStreamManager, RpcHandler, StreamManager, TransportServer, TransportServerBootstrap
}
import org.apache.spark.sql.megaphone.SparkPrivate

import io.megaphone.format.ExecutorAddress

/** Requests from one executor to another and their answers, bytes for bytes, by Spark's own
  * transport. Authentication, encryption and time-outs are as configured for the transfer of
  * Spark's blocks.
  *
  * Spark's executors cannot send each other messages, and its block server cannot be asked for a
  * block that may be missing: see decision 0047.
  *
  * Threads: any.
  *
  * @param port
  *   the first port to try; 0 for any free one. If none can be had, that is logged, and nobody can
  *   ask this executor
  * @param threads
  *   run `answer`, so that a disk that hangs does not hold up the transport
  * @param unsent
  *   how many bytes of answers may wait here for askers that are slow to take them
  * @param answer
  *   answers a request; what it throws becomes the asker's exception
  */
final class PeerTransport(
    env: SparkEnv,
    port: Int,
    threads: Executor,
    unsent: UnsentBytes.Max,
    answer: Array[Byte] => Array[Byte]
) extends AutoCloseable
    with Logging {
  import PeerTransport._

  /** In local mode nobody else asks. */
  private val isLocal = env.executorId == "driver"
  private val host = if (isLocal) "localhost" else env.blockManager.blockManagerId.host
  private val security = env.securityManager
  private val isSecured = security.isAuthenticationEnabled()
  private val conf = SparkTransportConf.fromSparkConf(
    env.conf,
    "shuffle",
    Threads,
    sslOptions = Some(security.getRpcSSLOptions())
  )

  private val answers = new UnsentBytes(unsent)

  private val handler = new RpcHandler {
    private val streams = new OneForOneStreamManager // there are none
    override def getStreamManager(): StreamManager = streams
    override def receive(
        asker: TransportClient,
        request: ByteBuffer,
        callback: RpcResponseCallback
    ): Unit = {
      val asked = bytesOf(request) // which is the transport's again when this returns
      threads.execute { () =>
        try
          if (asker.isActive) {
            val answered = ByteBuffer.wrap(answer(asked))
            answers.send(asker.getChannel, answered.remaining.toLong)(callback.onSuccess(answered))
          }
        catch { case e: Throwable => callback.onFailure(e) } // also OutOfMemoryError
      }
    }
  }

  private val context = new TransportContext(conf, handler)

  @volatile private var hasClients = false

  /** Made when they are needed: in local mode the application has no id yet. */
  private lazy val clients = {
    val bootstraps =
      if (!isSecured) Collections.emptyList[TransportClientBootstrap]()
      else
        Collections.singletonList[TransportClientBootstrap](
          new AuthClientBootstrap(conf, env.conf.getAppId, security)
        )
    hasClients = true
    context.createClientFactory(bootstraps)
  }

  /** At the host that Spark tells others, or at all addresses: the host may be one outside. */
  private val server = serverAt(host).recoverWith { case NonFatal(_) => serverAt(null) } match {
    case Success(made) => Some(made)
    case Failure(e) =>
      logWarning(
        s"No port could be had at $host for requests of other executors, so they read files " +
          s"instead. Choose another spark.megaphone.transfer.port. ($e)"
      )
      None
  }

  private def serverAt(host: String): Try[TransportServer] = Try {
    val bootstraps =
      if (!isSecured) Collections.emptyList[TransportServerBootstrap]()
      else
        Collections.singletonList[TransportServerBootstrap](
          new AuthServerBootstrap(conf, security)
        )
    val listen = (at: Int) => {
      val made = context.createServer(host, at, bootstraps)
      (made, made.getPort)
    }
    SparkPrivate.startServiceOnPort(port, env.conf, "the executors' requests")(listen)
  }

  /** The address at which other executors reach this one; its port is 0 if they cannot. */
  def address: ExecutorAddress = ExecutorAddress(env.executorId, host, server.fold(0)(_.getPort))

  /** Asks another executor, and waits for its answer. Throws TimeoutException after `waitMs`,
    * InterruptedException, and what the transport throws.
    */
  def ask(address: ExecutorAddress, request: Array[Byte], waitMs: Long): Array[Byte] = {
    val answered = new CompletableFuture[Array[Byte]]
    val client = clients.createClient(address.host, address.port)
    val id = client.sendRpc(
      ByteBuffer.wrap(request),
      new RpcResponseCallback {
        override def onSuccess(bytes: ByteBuffer): Unit = { answered.complete(bytesOf(bytes)); () }
        override def onFailure(e: Throwable): Unit = { answered.completeExceptionally(e); () }
      }
    )
    try answered.get(math.max(0, waitMs), TimeUnit.MILLISECONDS)
    catch { case e: ExecutionException => throw e.getCause }
    finally client.removeRpcRequest(id) // or the channel is closed, because nothing comes
  }

  /** Called twice: nothing happens. */
  override def close(): Unit = {
    server.foreach(_.close())
    try if (hasClients) clients.close()
    finally context.close()
  }
}

object PeerTransport {
  private val Threads = 2

  private def bytesOf(buffer: ByteBuffer): Array[Byte] = {
    val bytes = new Array[Byte](buffer.remaining)
    buffer.get(bytes)
    bytes
  }
}
