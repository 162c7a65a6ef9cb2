export { deadlineError, isDeadlineError, type MissedDeadline } from './request-deadline.js';
