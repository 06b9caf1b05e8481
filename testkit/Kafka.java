// SPDX-License-Identifier: Apache-2.0
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import kafka.tools.StorageTool;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;

/** The program of a new Kafka broker: `java Kafka.java PROPERTIES`. It ends with its input. */
class Kafka {
  public static void main(String[] arguments) throws Exception {
    String properties = arguments[0];
    String cluster = Uuid.randomUuid().toString();
    String[] format = {"format", "--config", properties, "--cluster-id", cluster};
    StorageTool.execute(format, System.out);
    new KafkaRaftServer(KafkaConfig.fromProps(Utils.loadProps(properties)), Time.SYSTEM).startup();
    System.out.println("the broker is there");
    System.in.read();
    Runtime.getRuntime().halt(0); // what it has is thrown away
  }
}
