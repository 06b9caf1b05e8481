// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

/** The pages that a log's records lie in, the heap budget that all logs share, and the files that
  * take the pages beyond it. It depends on `errors` and `log.record`. A record keeps its position
  * and its bytes, whether its page is on the heap or on disk.
  */
package object memory
