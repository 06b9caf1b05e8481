// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces

/** The interface for other languages: plain arguments in, JSON out. The Python package calls it
  * through py4j; it depends on `driver`, on `faces.json` and on the core's `plan` and `view`. A
  * caller may rely on a call that throws having changed nothing, unless it throws because the plan
  * log could not be written.
  */
package object api
