import { optionError } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';
import { checkedOption, numberOption, type OptionTable, optionTable } from '../runtime/options.js';

/**
 * Options of `createAdminHandler`: under which host names the admin pages may be opened, and whether endpoints get metrics of their own. An
 * invalid option throws EVENKEEL_OPTION.
 */
export interface AdminOptions {
  /**
   * Host names by which the page may be requested, in addition to IP addresses and `localhost`. A page of another site whose name
   * resolves to this address (DNS rebinding) is refused. Without port. @defaultValue []
   */
  readonly hosts?: readonly string[] | undefined;
  /** How many endpoints of each balancer get time series of their own in `/metrics`, at most 10,000. @defaultValue 0 */
  readonly perEndpoint?: number | undefined;
}

export const adminTable: OptionTable<Complete<AdminOptions>> = optionTable('options', {
  hosts: checkedOption<readonly string[]>([], (name, value) => {
    if (Array.isArray(value) && value.every((host) => typeof host === 'string' && host !== '')) return value;
    throw optionError(name, 'a list of host names', value);
  }),
  perEndpoint: numberOption(0, { min: 0, max: 10_000, integer: true }),
});
