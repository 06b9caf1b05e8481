// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark

/** The executor's side of the plugin: the state of this JVM, the blocks it publishes, the replicas
  * it prepares, and the assignments of its tasks. It depends on the core's `runtime`, `state`,
  * `transfer` and what they are made of, and on `checkpoint`, `conf` and `wire`. A caller may rely
  * on state outliving tasks and providers: it is dropped only when the driver's orders no longer
  * name it.
  */
package object executor
