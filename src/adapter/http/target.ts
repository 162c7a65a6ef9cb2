export { checkClusterDomain, originMatcher, resolverOf } from './origin.js';
