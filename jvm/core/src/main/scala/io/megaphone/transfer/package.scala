// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** How bins get from one executor to another: the blocks that carry them, the names of blocks, and
  * the replicas that are prepared ahead of a step. It depends on `errors`, `log`, `format`, `plan`,
  * `state` and `checkpoint`, and reaches the other executors only through the trait Peers. A caller
  * may rely on names: a block or a replica is used at exactly the name that was asked for, and
  * losing one costs time only.
  */
package object transfer
