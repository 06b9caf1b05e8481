// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark

/** What driver and executors share besides the core: messages as bytes, and the fault points that
  * tests set. It depends on the core's `format` and on its `runtime` for the messages, and on
  * nothing else of the plugin. A caller may rely on a decoded message being equal to the encoded
  * one, if both ends run the same jar.
  */
package object wire
