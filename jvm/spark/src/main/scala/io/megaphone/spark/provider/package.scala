// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark

/** Spark's state store interface on a worker's bins: the handles that operators read and write
  * through, in a task of a running batch and in a reader. It depends on the core's `log`, `state`,
  * `checkpoint` and `runtime`, on `checkpoint`, `conf` and `metrics`, and on `executor`, which
  * holds the state of this JVM. A caller may rely on a handle showing exactly the bins that the
  * batch's routing table gives the worker: a key of any other bin is an error.
  */
package object provider
