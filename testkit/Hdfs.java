// SPDX-License-Identifier: Apache-2.0
import java.io.File;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * The program of an HDFS: `java Hdfs.java FOLDER PORT DELAY_MS`. Its name node listens at the port,
 * and each request of a client waits for the delay first. It ends when its standard input does.
 */
class Hdfs {
  /**
   * A client's requests on their way to the name node's threads. Each arrives after the delay,
   * however many others are on their way: no thread waits for it, neither one of the name node nor
   * that which reads a connection, which many threads of a client share.
   */
  public static class Late<E> extends LinkedBlockingQueue<E> {
    static long delayMs;
    private static final ScheduledExecutorService CLOCK =
        Executors.newSingleThreadScheduledExecutor();

    public Late(int capacity) {
      super(capacity);
    }

    @Override
    public void put(E request) {
      CLOCK.schedule(
          () -> {
            super.put(request);
            return null;
          },
          delayMs,
          TimeUnit.MILLISECONDS);
    }
  }

  public static void main(String[] arguments) throws Exception {
    File folder = new File(arguments[0]);
    int port = Integer.parseInt(arguments[1]);
    Late.delayMs = Long.parseLong(arguments[2]);
    Configuration conf = new Configuration();
    if (Late.delayMs > 0) {
      conf.setClassLoader(Late.class.getClassLoader()); // this file is compiled as it is started
      conf.setClass("ipc." + port + ".callqueue.impl", Late.class, BlockingQueue.class);
      // The data node reports blocks at a port of its own, at once. A client that closes a file
      // asks again, after a pause, if its last block is not reported yet.
      conf.set("dfs.namenode.servicerpc-address", "127.0.0.1:0");
    }
    MiniDFSCluster.Builder builder = new MiniDFSCluster.Builder(conf, folder);
    try (MiniDFSCluster cluster = builder.nameNodePort(port).numDataNodes(1).build()) {
      cluster.waitActive();
      System.out.println("HDFS is there");
      System.in.read();
    }
    System.exit(0); // some of its threads would stay
  }
}
