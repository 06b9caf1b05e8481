// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.nio.ByteBuffer
import java.util.Collections
import java.util.concurrent.{CompletableFuture, ExecutionException, TimeUnit}

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
  OneForOneStreamManager, RpcHandler, StreamManager, TransportServerBootstrap
}
import org.apache.spark.util.Utils

import io.megaphone.format.ExecutorAddress

/** Requests from one executor to another and their answers, bytes for bytes, by Spark's own
  * transport. Authentication, encryption and time-outs are as configured for the transfer of
  * Spark's blocks.
  *
  * Spark's executors cannot send each other messages, and its block server cannot be asked for a
  * block that may be missing: see decision 0047.
  *
  * Private to Spark (4.2, 4.3): `Utils`.
  *
  * Threads: any.
  *
  * @param port
  *   the first port to try; 0 for any free one. If none can be had, that is logged, and nobody can
  *   ask this executor
  * @param answer
  *   answers a request, on a thread of the transport; what it throws becomes the asker's exception
  */
final class PeerTransport(env: SparkEnv, port: Int, answer: Array[Byte] => Array[Byte])
    extends AutoCloseable
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

  private val handler = new RpcHandler {
    private val streams = new OneForOneStreamManager // there are none
    override def getStreamManager(): StreamManager = streams
    override def receive(
        asker: TransportClient,
        request: ByteBuffer,
        callback: RpcResponseCallback
    ): Unit =
      try callback.onSuccess(ByteBuffer.wrap(answer(bytesOf(request))))
      catch { case e: Throwable => callback.onFailure(e) } // also OutOfMemoryError
  }

  private val context = new TransportContext(conf, handler)

  /** Made when it is needed: in local mode the application has no id yet. */
  private lazy val clients = context.createClientFactory(
    if (!isSecured) Collections.emptyList[TransportClientBootstrap]()
    else
      Collections.singletonList[TransportClientBootstrap](
        new AuthClientBootstrap(conf, env.conf.getAppId, security)
      )
  )
  private val server = {
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
    try Some(Utils.startServiceOnPort(port, listen(_), env.conf, "the executors' requests")._1)
    catch {
      case NonFatal(e) =>
        logWarning(
          s"No port could be had at $host for requests of other executors, so they read files " +
            s"instead. Choose another spark.megaphone.transfer.port. ($e)"
        )
        None
    }
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
    clients.close()
    context.close()
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
