// Search from the disk. A browser starts no worker for a page that was opened as a file, so the worker's script
// runs in a hidden frame of the page instead. Pages that come from a server keep the browser's own workers.
if (location.protocol === "file:") {
  window.Worker = class FrameWorker extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = null
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.srcdoc = "<!doctype html>"
      frame.onload = () => {
        frame.onload = null
        const inside = frame.contentWindow
        inside.postMessage = data => {
          const event = new MessageEvent("message", { data })
          this.dispatchEvent(event)
          if (this.onmessage) this.onmessage(event)
        }
        inside.importScripts = (...urls) => Promise.all(urls.map(one => this.load(frame, one)))
        this.load(frame, url).then(() => {
          const waiting = this.waiting
          this.waiting = null
          for (const data of waiting) this.deliver(inside, data)
        })
      }
      this.frame = frame
      document.body.appendChild(frame)
    }

    load(frame, url) {
      return new Promise((done, failed) => {
        const script = frame.contentDocument.createElement("script")
        script.src = new URL(url, location.href).href
        script.onload = done
        script.onerror = failed
        frame.contentDocument.head.appendChild(script)
      })
    }

    deliver(inside, data) {
      inside.dispatchEvent(new inside.MessageEvent("message", { data }))
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else this.deliver(this.frame.contentWindow, data)
    }

    terminate() {
      this.frame.remove()
    }
  }
}
