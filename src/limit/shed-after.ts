import { numberOption, type Option } from '../runtime/options.js';

/** The option `shedAfterMs` of limits, in ms; its default is CoDel's interval (RFC 8289, 4.2). */
export const shedAfterOption: Option<number> = numberOption(100, { min: 1, infinite: true });
