// Domains, and API keys that are held to one, through the npm client `resend`. Started by ../run,
// which sets RESEND_BASE_URL and RESEND_API_KEY.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Resend } from 'resend';
import { ok, refused, TIME, UUID } from './answers.js';

const resend = new Resend(process.env.RESEND_API_KEY);
const name = () => `${randomUUID()}.example`;

test('a domain is created, read, listed, changed, verified and removed', async () => {
  const called = name();
  const created = ok(
    await resend.domains.create({ name: called, region: 'eu-west-1', customReturnPath: 'bounces', trackingSubdomain: 'links' }),
  );
  assert.match(created.id, UUID);
  assert.match(created.created_at, TIME);
  assert.deepEqual([created.name, created.region, created.status], [called, 'eu-west-1', 'not_started']);
  const kinds = created.records.map(({ record, type }) => `${record} ${type}`);
  assert.deepEqual(kinds, ['SPF MX', 'SPF TXT', 'DKIM TXT', 'DKIM TXT', 'Tracking CNAME']);
  assert.equal(created.records[0].name, `bounces.${called}`);
  assert.equal(created.records[0].priority, 10);
  assert.ok(created.records.every(({ status, ttl, value }) => status === 'not_started' && ttl === 'Auto' && value));

  const { id } = created;
  const found = ok(await resend.domains.get(id));
  assert.equal(found.object, 'domain');
  assert.deepEqual(found.records, created.records);
  assert.deepEqual(found.capabilities, { sending: 'enabled', receiving: 'disabled' });
  assert.deepEqual(ok(await resend.domains.update({ id, openTracking: true, clickTracking: true, tls: 'enforced' })), { object: 'domain', id });
  const [newest] = ok(await resend.domains.list({ limit: 1 })).data;
  assert.deepEqual([newest.id, newest.open_tracking, newest.click_tracking], [id, true, true]);
  assert.deepEqual(ok(await resend.domains.verify(id)), { object: 'domain', id });
  assert.deepEqual(ok(await resend.domains.remove(id)), { object: 'domain', id, deleted: true });
  refused(await resend.domains.get(id), 404, 'not_found');
  refused(await resend.domains.verify(id), 404, 'not_found');
  refused(await resend.domains.remove(id), 404, 'not_found');
});

test('a name that is none, or there already, is refused', async () => {
  const called = name();
  ok(await resend.domains.create({ name: called }));
  refused(await resend.domains.create({ name: called }), 403, 'validation_error');
  refused(await resend.domains.create({ name: 'localhost' }), 422, 'validation_error');
  refused(await resend.domains.create({}), 422, 'missing_required_field');
});

test('an API key can be held to a domain, and ends with it', async () => {
  const { id } = ok(await resend.domains.create({ name: name() }));
  const key = (options) => resend.apiKeys.create({ name: 'held', domain_id: id, ...options });
  refused(await key({ permission: 'full_access' }), 422, 'validation_error');
  refused(await key({ permission: 'sending_access', domain_id: randomUUID() }), 422, 'validation_error');
  const { token } = ok(await key({ permission: 'sending_access' }));
  const held = new Resend(token);
  refused(await held.domains.list(), 401, 'restricted_api_key');
  ok(await resend.domains.remove(id));
  refused(await held.domains.list(), 403, 'invalid_api_key');
});
