import { systemClock } from 'evenkeel';
import {
  anyOption,
  booleanOption,
  checkedOption,
  checkKeys,
  checkNumber,
  numberOption,
  optionalNumber,
  optionError,
  optionTable,
} from 'evenkeel/adapter';

/** The longest time that an RSocket frame can state, in ms. */
const MAX_MS = 0x7fffffff;
const ms = { above: 0, max: MAX_MS, integer: true };

const setupTable = optionTable('setup', {
  payload: anyOption(),
  dataMimeType: anyOption(),
  metadataMimeType: anyOption(),
  keepAlive: numberOption(20_000, ms),
  lifetime: optionalNumber(ms),
});

export const rsocketTable = optionTable('options', {
  setup: checkedOption(withLifetime({}), (_name, /** @type {any} */ value) => withLifetime(value)),
  fragmentation: checkedOption({}, (name, /** @type {any} */ value) => {
    checkKeys(name, value, ['maxOutboundFragmentSize']);
    const { maxOutboundFragmentSize: size } = value;
    if (size !== 0) checkNumber(`${name}.maxOutboundFragmentSize`, size, 0, { min: 64, integer: true });
    return { ...value };
  }),
  responder: checkedOption({}, (name, value) => {
    if (typeof value !== 'object' || value === null) throw optionError(name, 'an object', value);
    return value;
  }),
  lease: booleanOption(false),
  tls: checkedOption(undefined, (name, value) => {
    if (typeof value !== 'object' || value === null) throw optionError(name, 'an object as for tls.connect', value);
    // The object is copied, because sockets are opened with these TLS settings long after the caller passed them.
    return { ...value };
  }),
});

/** Fills in defaults and checks every option. Throws EVENKEEL_OPTION with a message that names the option. */
export function connectionSettings(options) {
  if (typeof options !== 'object' || options === null) throw optionError('options', 'an object', options);
  const { clock = systemClock } = options;
  return { ...rsocketTable.resolveOwn(options), clock };
}

/** @param {NonNullable<import('rsocket-core').ConnectorConfig['setup']>} setup */
function withLifetime(setup) {
  const { keepAlive, lifetime } = /** @type {{ keepAlive: number, lifetime?: number }} */ (setupTable.resolve(setup));
  const usual = Math.max(90_000, keepAlive + 1);
  return { ...setup, keepAlive, lifetime: checkNumber('setup.lifetime', lifetime, usual, { ...ms, above: keepAlive }) };
}
