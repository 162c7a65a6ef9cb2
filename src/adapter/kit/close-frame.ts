import { randomBytes } from 'node:crypto';
import { checkNumber, optionError } from '../../runtime/check.js';
import type { Option } from '../../runtime/options.js';

/**
 * Builds the frame with which a WebSocket client begins the closing handshake (RFC 6455, 5.5.1). An adapter writes it itself when it has
 * only the connection and no WebSocket object. The frame is valid between any two frames, and the server answers it. `reason` has at most
 * 123 bytes.
 */
export function closeFrame(code: number, reason: string): Buffer {
  const payload = Buffer.concat([Buffer.from([code >> 8, code & 0xff]), Buffer.from(reason)]);
  const mask = randomBytes(4);
  const masked = payload.map((byte, index) => byte ^ (mask[index % 4] as number));
  return Buffer.concat([Buffer.from([0x88, 0x80 | payload.length]), mask, masked]);
}

const codes = { min: 1000, max: 4999, integer: true };

/** The code of a WebSocket's close frame, 1000 to 4999. Codes that may not be sent (1004 to 1006, 1015 to 2999) throw EVENKEEL_OPTION. */
export const leaveCodeOption = (usual: number): Option<number> => ({
  default: usual,
  bounds: codes,
  check(name, value) {
    const code = checkNumber(name, value, usual, codes);
    const isReserved = [1004, 1005, 1006].includes(code) || (code > 1014 && code < 3000);
    if (isReserved) throw optionError(name, 'a code that a close frame may carry, such as 1012 or 4012', value);
    return code;
  },
});
