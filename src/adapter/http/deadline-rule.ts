export { type DeadlineOf, deadlineRule } from './request-deadline.js';
