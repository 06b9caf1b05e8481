// SPDX-License-Identifier: Apache-2.0
import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** The program of an HDFS: `java Hdfs.java FOLDER`. It ends when its standard input does. */
class Hdfs {
  public static void main(String[] arguments) throws Exception {
    File folder = new File(arguments[0]);
    try (MiniDFSCluster cluster =
        new MiniDFSCluster.Builder(new Configuration(), folder).numDataNodes(1).build()) {
      cluster.waitActive();
      System.out.println("name node at " + cluster.getNameNodePort());
      System.in.read();
    }
    System.exit(0); // some of its threads would stay
  }
}
