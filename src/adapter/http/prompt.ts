export {
  type PrefixKey,
  type PrefixKeyOptions,
  type PromptKeyOptions,
  pickerOf,
  prefixKeyOf,
  promptDefaults,
  promptKey,
} from './key.js';
