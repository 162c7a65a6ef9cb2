import { numberOption, type Option } from '../runtime/options.js';

/** `shedAfterMs`; its default is CoDel's interval (RFC 8289, 4.2). */
export const shedAfterOption: Option<number> = numberOption(100, { min: 1, infinite: true });
