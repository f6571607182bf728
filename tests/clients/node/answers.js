// What every test of the client asks of an answer.
import assert from 'node:assert/strict';

export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
export const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;

// The client never throws: it returns data or error, and one of them is null.
export function ok({ data, error }) {
  assert.equal(error, null);
  return data;
}

export function refused({ data, error }, statusCode, name) {
  assert.equal(data, null);
  assert.equal(error.statusCode, statusCode);
  assert.equal(error.name, name);
  assert.ok(error.message.length > 0);
  return error.message;
}
