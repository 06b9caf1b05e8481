// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark

/** The plugin's outer faces: the ways in which users see and steer the moving of state. They depend
  * on `driver`; nothing depends on them. A caller may rely on a refusal having a stable `condition`
  * and a message that says what to do.
  */
package object faces
